#!/usr/bin/env -S gjs -m
// tests/introspection/story.js — the library from JavaScript: load, tokenize, generate step by step, a grammar, a score.
//
// Nothing but the typelib is used, as any language with GObject introspection would. Prints TAP; run by meson with gjs.
import GLib from 'gi://GLib';
import TinyLoop from 'gi://TinyLoop?version=1.0';
import System from 'system';

const PATH = GLib.getenv('TINYLOOP_DEMO');
const tests = [];
const test = (name, run) => tests.push({name, run});

function equal(got, wanted) {
    if (JSON.stringify(got) !== JSON.stringify(wanted))
        throw new Error(`${JSON.stringify(got)} instead of ${JSON.stringify(wanted)}`);
}

function raises(code, call) {
    try {
        call();
    } catch (error) {
        equal(error.matches(TinyLoop.Error.quark?.() ?? GLib.quark_from_string('tl-error-quark'), code), true);
        return;
    }
    throw new Error('no error came');
}

const bytesOf = ids => new GLib.Bytes(new Uint8Array(Int32Array.from(ids).buffer));
const idsOf = bytes => [...new Int32Array(bytes.toArray().slice().buffer)];
const textOf = bytes => new TextDecoder().decode(bytes.toArray());

const model = TinyLoop.Model.new(PATH);
model.load(null);
const tokenizer = model.get_tokenizer();
const prompt = idsOf(tokenizer.encode_chat_bytes(null, 'turn on the light'));

test('the model says what it is', () => {
    equal(model.loaded, true);
    equal(model.vocab_size, tokenizer.get_vocab_size());
    equal(JSON.parse(model.descriptor_json).dims.d_model, model.dim);
});

test('text becomes ids and text again', () => {
    const text = 'turn on the light — größer 日本';
    const ids = tokenizer.encode_bytes(new GLib.Bytes(new TextEncoder().encode(text)), TinyLoop.EncodeFlags.NONE);
    equal(textOf(tokenizer.decode(idsOf(ids))), text);
});

test('a reply comes token by token and is the one of the whole run', () => {
    const config = new TinyLoop.GenerateConfig({max_tokens: 12, loops: 3, temperature: 0.8, seed: 5, ignore_eos: true});
    const generator = model.begin(bytesOf(prompt), config);
    const seen = [];
    for (let step = TinyLoop.Step.PASS, token; step !== TinyLoop.Step.END;) {
        [step, token] = generator.step(null);
        if (step === TinyLoop.Step.TOKEN) {
            equal([token.index, token.position, token.loops], [seen.length, prompt.length + seen.length, 3]);
            seen.push(token.id);
        }
    }
    const whole = model.generate_bytes(bytesOf(prompt), config, null);
    equal(idsOf(whole.get_tokens_bytes()), [...prompt, ...seen]);
    equal(generator.finish().get_text(), whole.get_text());
    equal(whole.get_finish_reason(), TinyLoop.FinishReason.LENGTH);
    equal(whole.get_figures().tokens_emitted, 12);
});

test('a grammar bounds the reply', () => {
    const grammar = TinyLoop.Grammar.new_regex('(red|green) light', -1, TinyLoop.RegexFlags.NONE);
    equal([grammar.accepts(new GLib.Bytes(new TextEncoder().encode('red light'))),
        grammar.accepts(new GLib.Bytes(new TextEncoder().encode('red')))], [true, false]);
    const reply = model.generate_bytes(bytesOf(prompt), new TinyLoop.GenerateConfig({grammar}), null);
    equal(/^(red|green) light$/.test(reply.get_text()), true);
    equal(reply.get_finish_reason(), TinyLoop.FinishReason.GRAMMAR_COMPLETE);

    const matcher = grammar.create_matcher();
    const mask = matcher.get_mask(0).toArray();
    const first = idsOf(reply.get_tokens_bytes())[prompt.length];
    equal((mask[first >> 3] >> (first & 7)) & 1, 1);
    matcher.advance(first);
    equal(matcher.is_accepting(), false);
});

test('a score is a tensor of floats', () => {
    const tensor = model.score_last_bytes(bytesOf(prompt), new TinyLoop.GenerateConfig({loops: 3}), null);
    equal([tensor.get_dtype(), tensor.get_n_dims(), tensor.get_dim(0)], ['float32', 1, model.vocab_size]);
    const logits = new Float32Array(tensor.dup_bytes().toArray().slice().buffer);
    const best = logits.indexOf(Math.max(...logits));
    const greedy = model.generate_bytes(bytesOf(prompt), new TinyLoop.GenerateConfig({loops: 3, max_tokens: 1}), null);
    equal(idsOf(greedy.get_tokens_bytes()).at(-1), best);

    const scores = model.score_with_consistency_bytes(bytesOf(prompt), null, null);
    const names = [...Array(scores.get_n()).keys()].map(i => scores.get_name(i));
    equal(names, ['logits', 'argmax', 'stable_from', 'consistent']);
});

test('errors have the domain and code of the library', () => {
    raises(TinyLoop.Error.INVALID_ARGUMENT, () => model.begin(bytesOf([model.vocab_size]), null));
    raises(TinyLoop.Error.INVALID_ARGUMENT, () => TinyLoop.Grammar.new_regex('a(', -1, TinyLoop.RegexFlags.NONE));
    raises(TinyLoop.Error.BAD_FILE, () => TinyLoop.Model.new('no-such.tinyloop').load(null));
});

test('a closed model says so', () => {
    model.close();
    raises(TinyLoop.Error.CLOSED, () => model.generate_bytes(bytesOf(prompt), null, null));
});

let bad = 0;
print(`1..${tests.length}`);
tests.forEach(({name, run}, i) => {
    try {
        run();
        print(`ok ${i + 1} - ${name}`);
    } catch (error) {
        bad++;
        print(`not ok ${i + 1} - ${name}\n# ${error}\n# ${(error.stack ?? '').trim().replaceAll('\n', '\n# ')}`);
    }
});
System.exit(bad ? 1 : 0);
