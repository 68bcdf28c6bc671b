#!/usr/bin/python3
"""tests/python/introspection.py — the bindings themselves: loading in the background, conversations."""
import threading
import unittest

import tinyloop_py as tl
from common import DEMO, GI, GLib, WithModel

class LoadingLater(unittest.TestCase):
    def load(self, path, cancellable=None):
        """-> what finish gave, progress seen"""
        loop, model, seen, result = GLib.MainLoop(), GI.Model(path=path), [], []

        def ready(source, outcome):
            try:
                result.append(source.load_finish(outcome))
            except GLib.Error as error:
                result.append(int(error.code))
            loop.quit()
        model.connect("notify::load-progress", lambda m, _: seen.append(m.props.load_progress))
        self.assertFalse(model.props.loaded)
        model.load_async(cancellable, ready)
        loop.run()
        return result, seen, model

    def test_progress_rises_to_a_loaded_model(self):
        result, seen, model = self.load(DEMO)
        self.assertEqual((result, seen[-1], model.props.loaded), ([True], 100, True))
        self.assertEqual(seen, sorted(seen))
        generation = model.generate_bytes(tl._engine.to_bytes(tl._engine.ids_array([5, 6])), None, None)
        self.assertGreater(len(tl._engine.from_bytes(generation.get_tokens_bytes())), 2)

    def test_a_missing_file_is_an_error_at_the_end(self):
        self.assertEqual(self.load("no-such.tinyloop")[0], [int(GI.Error.BAD_FILE)])

    def test_a_cancelled_load_says_so(self):
        cancellable = tl._engine.Gio.Cancellable()
        cancellable.cancel()
        result, _, model = self.load(DEMO, cancellable)
        self.assertEqual((result, model.props.loaded), ([int(GI.Error.CANCELLED)], False))


class Conversing(WithModel):
    def begin(self, conversation, ids, policy=GI.PromptPolicy.QUEUE, history=GI.History.KEEP, max_tokens=4):
        config = GI.GenerateConfig(max_tokens=max_tokens, ignore_eos=True)
        return conversation.begin(tl._engine.to_bytes(tl._engine.ids_array(ids)), config, policy, history, None)

    def tokens(self, conversation):
        return tl._engine.from_bytes(conversation.dup_tokens()).tolist()

    def test_two_turns_are_one_sequence(self):
        c = GI.Conversation.new(self.model._model)
        first = self.begin(c, self.prompt)
        self.assertNotEqual(c.get_state(), GI.ConversationState.IDLE)
        said = tl._engine.from_bytes(first.run(None).get_tokens_bytes()).tolist()
        c.commit(first, 3)
        self.assertEqual(self.tokens(c), said[:-1])
        second = self.begin(c, [9, 10])
        reply = tl._engine.from_bytes(second.run(None).get_tokens_bytes()).tolist()
        self.assertEqual(said[:-1] + reply, self.model.generate(said[:-1] + [9, 10], max_tokens=4))
        self.assertGreater(second.get_figures().cached_tokens, 0)
        c.commit(second, 4)
        self.assertTrue(c.truncate(1))
        self.assertEqual(self.tokens(c), said[:-1] + reply[:3])

    def test_abort_restores_and_drop_refuses(self):
        c = GI.Conversation.new(self.model._model)
        running = self.begin(c, self.prompt)
        with self.assertRaises(GLib.Error):
            self.begin(c, self.prompt, GI.PromptPolicy.DROP)
        c.abort(running)
        self.assertEqual((self.tokens(c), c.get_state()), ([], GI.ConversationState.IDLE))

    def test_interrupt_waits_for_the_commit(self):
        c = GI.Conversation.new(self.model._model)
        running = self.begin(c, self.prompt, max_tokens=200)
        running.step(None)
        got = []
        thread = threading.Thread(target=lambda: got.append(self.begin(c, [7], GI.PromptPolicy.INTERRUPT)))
        thread.start()
        n = 0
        while True:
            step, token = running.step(None)
            if step == GI.Step.END:
                break
            n += 1
        self.assertEqual(running.get_finish_reason(), GI.FinishReason.CANCELLED)
        c.commit(running, n)
        thread.join()
        self.assertEqual(len(got), 1)
        c.abort(got[0])


if __name__ == "__main__":
    unittest.main()
