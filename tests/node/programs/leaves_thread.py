"""Leave a thread running at import, as a process that forks must not."""

import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
