"""Answering for a model that stays in this process, to a peer in its own (see `runners/protocol.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Client, Connection, Listener, wait
from threading import Thread

import numpy as np
import torch

from grace.experiments.task import Task
from grace.models.base import checked_scores


@contextmanager
def served(task: Task) -> Iterator[str]:
    """The address at which the model of a task can be asked, as long as this lasts. Only this user can reach it."""
    heard, stop = Pipe(duplex=False)
    with Listener() as listener, heard, stop:
        address = str(listener.address)
        thread = Thread(target=_serve, args=(listener, heard, task), daemon=True)
        thread.start()
        try:
            yield address
        finally:
            stop.send_bytes(b"stop")
            Client(address).close()  # whoever waits for a connection has one
            thread.join()


def _serve(listener: Listener, heard: Connection, task: Task) -> None:
    """One connection after another, until told to stop: a peer that was ended is followed by the next."""
    while not heard.poll():
        with listener.accept() as connection:
            try:
                while heard not in wait([connection, heard]):
                    connection.send_bytes(_answer(task, connection.recv_bytes()))
            except (EOFError, OSError):
                continue


def _answer(task: Task, message: bytes) -> bytes:
    """Scores after "=", or what went wrong after "!"."""
    try:
        rows = np.frombuffer(message).reshape(-1, task.rows.shape[1])
        return b"=" + checked_scores(task.model, torch.as_tensor(rows.copy())).numpy().astype(np.float64).tobytes()
    except Exception as reason:  # whatever the model raises is for the peer to report
        return b"!" + str(reason).encode()
