import threading

import workbench


def work():
    for i in range(500):
        workbench.report(loss=i)


threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
