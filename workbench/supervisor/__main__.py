"""Start the detached supervisor of one cluster: ``python -m … CLUSTER``."""

import os
import select
import sys

BIRTH_SECONDS = 120.0


def main() -> None:
    """Fork twice: the last child supervises, its parent waits until it has started."""
    if "--foreground" in sys.argv:
        _supervise(-1)
        return
    # The parent returns at once: the supervisor is adopted by init, which also reaps it.
    if os.fork():
        os._exit(0)
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        _attend(child, reader)
        os._exit(0)
    os.close(reader)
    _supervise(writer)


def _supervise(writer: int) -> None:
    from workbench.supervisor.early_start import begin

    forks = begin(sys.argv[1])
    from workbench.supervisor.process import supervise

    def begun() -> None:
        if writer >= 0:
            os.write(writer, b"1")
            os.close(writer)

    supervise(sys.argv[1], begun, forks)


def _attend(child: int, reader: int) -> None:
    """Wait until the supervisor has started; if it ends before that, store the reason."""
    if not select.select([reader], [], [], BIRTH_SECONDS)[0] or os.read(reader, 1):
        return
    _, status = os.waitpid(child, 0)
    if status:
        from workbench.supervisor.final_message import store_failed_start

        store_failed_start(sys.argv[1], status)


if __name__ == "__main__":
    main()
