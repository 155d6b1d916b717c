"""What a cell of the contract needs on the fake cluster besides the names that it has there."""


def asked_to_stop() -> bool:
    import threading

    return getattr(threading.current_thread(), "stop_at", None) is not None
