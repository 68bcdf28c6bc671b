#!/usr/bin/python3
"""tests/python/threads.py — closing, Ctrl-C, callbacks, many threads on one model, and that nothing stays behind.

Run by meson like all of this folder (common.py).
"""
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import tracemalloc
import unittest
from unittest import mock

import numpy as np
import tinyloop_py as tl
from common import DEMO, GI, SCORES, GLib, WithModel


def in_threads(*calls):
    """runs them at once; -> what each returned, or the exception it raised"""
    results, start = [None] * len(calls), threading.Barrier(len(calls))

    def run(i, call):
        start.wait(60)
        try:
            results[i] = call()
        except BaseException as error:
            results[i] = error
    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def wait_for_work(model, thread):
    """until the thread's call holds cache: it computes, in C"""
    idle = model.vram_usage_mb()
    thread.start()
    while thread.is_alive() and model.vram_usage_mb() <= idle:
        pass


class Closing(unittest.TestCase):
    def test_a_closed_model_says_so(self):
        with tl.Model(DEMO) as model:
            self.assertGreater(model.vram_usage_mb(), 0)
        model.close()
        for call in (lambda: model.generate([1]), lambda: model.generate_stream([1], None), lambda: model.score([1]),
                     *[lambda name=name: getattr(model, name)([1]) for name in SCORES], model.config, model.vram_usage_mb, model.__enter__):
            with self.assertRaisesRegex(RuntimeError, "^model was closed$"):
                call()
        self.assertIn("closed", repr(model))

    def ended_by_close(self, call):
        """what call(model, began) raises when another thread closes the model after began()"""
        model, began = tl.Model(DEMO), threading.Event()

        def close():
            began.wait(60)
            model.close()
        return in_threads(lambda: call(model, began.set), close)[0]

    def test_closing_ends_a_stream_between_two_tokens(self):
        model = tl.Model(DEMO)
        with self.assertRaisesRegex(RuntimeError, "^model was closed$"):
            model.generate_stream([5, 6, 7], lambda token: in_threads(model.close), max_tokens=100)

    def test_closing_ends_generations_and_scores_while_they_compute(self):
        def over_and_over(call):
            def run(model, began):
                while True:
                    call(model)
                    began()
            return run
        for call in (lambda model: model.generate([5, 6, 7], max_tokens=20), lambda model: model.score([5] * 200, loops=8),
                     lambda model: model.score_with_uncertainty([5] * 50)):
            error = self.ended_by_close(over_and_over(call))
            self.assertEqual((type(error), str(error)), (RuntimeError, "model was closed"))

    def test_any_number_of_threads_may_close(self):
        model = tl.Model(DEMO)
        self.assertEqual(in_threads(*[model.close] * 8), [None] * 8)

    def test_devices_and_paths(self):
        with self.assertRaisesRegex(RuntimeError, "cuda"):
            tl.Model(DEMO, device="cuda")
        with self.assertRaisesRegex(RuntimeError, "no-such"):
            tl.Model("no-such.tinyloop")


class Callbacks(WithModel):
    def test_they_run_on_the_callers_thread(self):
        def stream():
            threads = set()
            self.model.generate_stream(self.prompt, lambda t: threads.add(threading.get_ident()), max_tokens=3)
            return threads == {threading.get_ident()}
        self.assertTrue(stream())
        self.assertEqual(in_threads(stream, stream), [True, True])

    def test_false_ends_behind_that_token_and_nothing_else_does(self):
        for answer in (None, True, 0, "", []):
            stream = self.model.generate_stream(self.prompt, lambda t: answer, max_tokens=3)
            self.assertEqual((stream["tokens_emitted"], stream["finish_reason"]), (3, "length"))
        seen = []
        r = self.model.generate_stream(self.prompt, lambda t: seen.append(t) or len(seen) < 3, max_tokens=20)
        self.assertEqual((r["tokens"][len(self.prompt):], r["tokens_emitted"], r["finish_reason"]), (seen, 3, "cancelled"))

    def test_another_thread_cancels_through_the_callback(self):
        cancel, seen = threading.Event(), []

        def on_token(token):
            seen.append(token)
            if len(seen) == 4:
                threading.Thread(target=cancel.set).start()
                cancel.wait(60)
            return not cancel.is_set()
        whole = self.model.generate(self.prompt, max_tokens=40)
        stream = self.model.generate_stream(self.prompt, on_token, max_tokens=40)
        self.assertEqual(stream["tokens"], whole[:len(self.prompt) + 4])

    def test_an_exception_ends_the_run_and_nothing_of_it_stays(self):
        idle, kept = self.model.vram_usage_mb(), []
        for kind in (KeyError, KeyboardInterrupt, SystemExit, GeneratorExit):
            def bad(token):
                self.assertGreater(self.model.vram_usage_mb(), idle)
                raise kind("mine")
            try:
                self.model.generate_stream(self.prompt, bad, max_tokens=5)
            except kind as error:
                kept.append(error)          # with its traceback, as an interactive shell keeps it
        self.assertEqual([str(e) for e in kept], ["'mine'", "mine", "mine", "mine"])
        self.assertEqual(self.model.vram_usage_mb(), idle)
        self.assertEqual(len(self.model.generate(self.prompt, max_tokens=1)), len(self.prompt) + 1)

    def test_a_callback_may_use_the_model(self):
        scores = []
        tokens = self.model.generate_stream(self.prompt, lambda t: scores.append(self.model.score_last(self.prompt)), max_tokens=3)
        self.assertEqual(tokens["tokens"], self.model.generate(self.prompt, max_tokens=3))
        np.testing.assert_array_equal(scores[0], scores[2])


class ManyThreads(WithModel):
    def test_results_are_those_of_lone_calls(self):
        grammar = tl.Grammar("[a-z ]{5,40}")
        calls = [lambda seed=seed: self.model.generate(self.prompt, max_tokens=16, temperature=1.0, seed=seed) for seed in range(4)]
        calls += [lambda loops=loops: self.model.score(self.prompt, loops=loops).tolist() for loops in (1, 8)]
        calls += [lambda: self.model.generate_stream(self.prompt, lambda t: True, max_tokens=16)["tokens"],
                  lambda: self.model.generate(self.prompt, max_tokens=16, grammar=grammar)]
        alone = [call() for call in calls]
        self.assertEqual(in_threads(*calls), alone)

    def test_python_runs_while_a_call_computes(self):
        cancellable, errors = tl._engine.Gio.Cancellable(), []

        def score():
            try:
                while True:
                    self.model._model.score_bytes(tl._engine.to_bytes(np.full(1000, 5, np.int32)), None, cancellable)
            except GLib.Error as error:
                errors.append(error.code)
        thread = threading.Thread(target=score)
        wait_for_work(self.model, thread)       # sees the cache grow: with the GIL held it could not look
        cancellable.cancel()
        thread.join()
        self.assertEqual(errors, [int(GI.Error.CANCELLED)])


class Remains(WithModel):
    N = 200

    def measure(self):
        gc.collect()
        with open("/proc/self/statm") as f:
            rss = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return rss, tracemalloc.get_traced_memory()[0], self.model.vram_usage_mb(), len(os.listdir("/proc/self/fd"))

    def once(self, i):
        self.model.generate(self.prompt, max_tokens=2, seed=i, temperature=1.0, stop=["x y"], stop_sequences=[[1, 2, 3]])
        self.model.generate_stream(self.prompt, lambda t: False, max_tokens=4)
        self.model.generate(self.prompt, max_tokens=2, grammar=tl.Grammar("a+b"))
        self.model.score_with_consistency(self.prompt, loops=2)
        tl.process_logits(self.model.score_last(self.prompt), self.prompt)
        for bad in (dict(max_tokens=0), dict(stop_sequences=[[]]), dict(max_tokens=10 ** 6)):
            try:
                self.model.generate(self.prompt, **bad)
            except (ValueError, RuntimeError):
                pass

    def test_hundreds_of_generations_leave_nothing_behind(self):
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for i in range(self.N // 2):
            self.once(i)
        rss, traced, cache, files = self.measure()
        for i in range(self.N):
            self.once(i)
        after = self.measure()
        self.assertLess(after[0] - rss, 6 << 20)
        self.assertLess(after[1] - traced, 64 << 10)
        self.assertEqual(after[2:], (cache, files))

    def test_a_model_that_is_dropped_is_gone(self):
        gone = []
        model = tl.Model(DEMO)
        model._model.weak_ref(lambda: gone.append(True))
        last = model.score_last(self.prompt)
        del model
        gc.collect()
        self.assertEqual(gone, [True])
        self.assertTrue(np.isfinite(last).all())


def with_ctrl_c(real, outcomes):
    """`real`, with a Ctrl-C to the main thread before it runs; `outcomes` gets the code of the error it ends with"""
    def call(*args):
        cancellable, cancelled = args[-1], threading.Event()
        cancellable.connect(lambda *_: cancelled.set())
        os.kill(os.getpid(), signal.SIGINT)
        cancelled.wait(60)
        try:
            return real(*args)
        except GLib.Error as error:
            outcomes.append(int(error.code))
            raise
    return call


class Interrupting(WithModel):
    def assert_interrupted(self, owner, name, run):
        outcomes = []
        before = signal.getsignal(signal.SIGINT)
        with mock.patch.object(owner, name, with_ctrl_c(getattr(owner, name), outcomes)):
            with self.assertRaises(KeyboardInterrupt):
                run()
        self.assertEqual(outcomes, [int(GI.Error.CANCELLED)])
        self.assertIs(signal.getsignal(signal.SIGINT), before)

    def test_ctrl_c_ends_a_load(self):
        self.assert_interrupted(GI.Model, "load", lambda: tl.load(DEMO))

    def test_ctrl_c_ends_a_score_and_the_model_goes_on(self):
        for name in SCORES:
            self.assert_interrupted(GI.Model, name + "_bytes", lambda: getattr(self.model, name)(self.prompt))
        self.assertTrue(np.isfinite(self.model.score_last(self.prompt)).all())

    def test_ctrl_c_in_the_middle_of_a_long_score(self):
        program = """import os, signal, sys, threading, tinyloop_py as tl
model = tl.load(os.environ["TINYLOOP_DEMO"])
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        model.score([5] * 1000, loops=8)
except KeyboardInterrupt:
    print("interrupted")
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, "interrupted\n"), done.stderr)

    def test_ctrl_c_ends_a_generation_at_the_next_pass(self):
        def interrupt(token):
            os.kill(os.getpid(), signal.SIGINT)
        sent, late, real = threading.Event(), [], GI.Generator.step

        def step(*args):
            if sent.is_set():
                late.append(args)
            elif len(passes) == 3:
                threading.Thread(target=lambda: (os.kill(os.getpid(), signal.SIGINT), sent.set())).start()
            passes.append(None)
            return real(*args)
        passes = []
        with mock.patch.object(GI.Generator, "step", step):
            with self.assertRaises(KeyboardInterrupt):
                while True:
                    self.model.generate(self.prompt, max_tokens=50)
        self.assertLessEqual(len(late), 1)
        with self.assertRaises(KeyboardInterrupt):
            self.model.generate_stream(self.prompt, interrupt, max_tokens=50)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_a_programs_own_handler_runs_once_and_stays(self):
        got = []

        def handler(number, frame):
            got.append(number)
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, handler))
        outcomes = []
        with mock.patch.object(GI.Model, "score_last_bytes", with_ctrl_c(GI.Model.score_last_bytes, outcomes)):
            with self.assertRaisesRegex(RuntimeError, "cancelled"):
                self.model.score_last(self.prompt)
        self.assertEqual((got, outcomes), ([signal.SIGINT], [int(GI.Error.CANCELLED)]))
        self.assertIs(signal.getsignal(signal.SIGINT), handler)

    def test_the_wakeup_descriptor_of_an_event_loop_stays_and_hears(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setblocking(False)
            before = signal.set_wakeup_fd(theirs.fileno())
            try:
                self.assert_interrupted(GI.Model, "score_last_bytes", lambda: self.model.score_last(self.prompt))
            finally:
                self.assertEqual(signal.set_wakeup_fd(before), theirs.fileno())
            self.assertEqual(ours.recv(10), bytes([signal.SIGINT]))

    def test_where_ctrl_c_is_ignored_it_stays_ignored(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.SIG_IGN))
        os.kill(os.getpid(), signal.SIGINT)
        self.assertTrue(np.isfinite(self.model.score_last(self.prompt)).all())
        self.assertIs(signal.getsignal(signal.SIGINT), signal.SIG_IGN)

    def test_another_signals_exception_ends_the_call_first(self):
        class Alarm(Exception):
            pass

        def alarm(number, frame):
            raise Alarm
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, alarm))
        real, ended = GI.Model.score_bytes, []

        def score(*args):
            os.kill(os.getpid(), signal.SIGUSR1)
            try:
                while True:
                    real(*args)
            except GLib.Error as error:
                ended.append(error.code)
                raise
        with mock.patch.object(GI.Model, "score_bytes", score), self.assertRaises(Alarm):
            self.model.score(self.prompt)
        self.assertEqual(ended, [int(GI.Error.CANCELLED)])

    def test_no_other_thread_touches_a_handler(self):
        expected = self.model.score_last(self.prompt)
        with mock.patch.object(signal, "signal", side_effect=AssertionError("a handler was set")):
            rows = in_threads(lambda: self.model.score_last(self.prompt))
            loaded = in_threads(lambda: tl.load(DEMO).generate(self.prompt, max_tokens=2))
        np.testing.assert_array_equal(rows[0], expected)
        self.assertEqual(loaded[0], self.model.generate(self.prompt, max_tokens=2))


if __name__ == "__main__":
    unittest.main()
