#!/usr/bin/lua5.3
-- tests/introspection/story.lua — the library from Lua: load, tokenize, generate step by step, a grammar, a score.
--
-- Nothing but the typelib is used, as any language with GObject introspection would. Prints TAP; run by meson with lgi.
local lgi = require 'lgi'
local GLib, TinyLoop = lgi.GLib, lgi.require('TinyLoop', '1.0')

local PATH = os.getenv('TINYLOOP_DEMO')
local tests = {}

local function test (name, run)
  tests[#tests + 1] = { name = name, run = run }
end

local function listed (values)
  local words = {}
  for i, value in ipairs(values) do
    words[i] = tostring(value)
  end
  return table.concat(words, ' ')
end

local function equal (got, wanted)
  local got_list = type(got) == 'table' and got or { got }
  local wanted_list = type(wanted) == 'table' and wanted or { wanted }
  local same = #got_list == #wanted_list
  for i, value in ipairs(wanted_list) do
    same = same and got_list[i] == value        -- numbers by value: lgi gives unsigned ones as floats
  end
  if not same then
    error(('%s instead of %s'):format(listed(got_list), listed(wanted_list)), 2)
  end
end

-- what a call gives that fails: nil or false, and a GLib.Error
local function fails (code, ok, failure)
  equal(not ok, true)
  equal(failure:matches(TinyLoop.Error, code), true)
end

local function bytes_of (ids)
  local packed = {}
  for i, id in ipairs(ids) do
    packed[i] = string.pack('=i4', id)
  end
  return GLib.Bytes.new(table.concat(packed))
end

local function unpacked (format, data)
  local values, at = {}, 1
  while at <= #data do
    values[#values + 1], at = string.unpack(format, data, at)
  end
  return values
end

local function ids_of (bytes)
  return unpacked('=i4', bytes.data)
end

local model = TinyLoop.Model.new(PATH)
assert(model:load(nil))
local tokenizer = model:get_tokenizer()
local prompt = ids_of(tokenizer:encode_chat_bytes(nil, 'turn on the light'))

test('the model says what it is', function ()
  equal(model.loaded, true)
  equal(model.vocab_size, tokenizer:get_vocab_size())
end)

test('text becomes ids and text again', function ()
  local text = 'turn on the light — größer 日本'
  local ids = tokenizer:encode_bytes(GLib.Bytes.new(text), {})
  equal(tokenizer:decode(ids_of(ids)).data, text)
end)

test('a reply comes token by token and is the one of the whole run', function ()
  local config = TinyLoop.GenerateConfig { max_tokens = 12, loops = 3, temperature = 0.8, seed = 5, ignore_eos = true }
  local generator = model:begin(bytes_of(prompt), config)
  local expected = { table.unpack(prompt) }
  local seen = 0
  while true do
    local step, token = generator:step(nil)
    if step == 'END' then break end
    if step == 'TOKEN' then
      equal({ token.index, token.position, token.loops }, { seen, #prompt + seen, 3 })
      seen = seen + 1
      expected[#expected + 1] = token.id
    end
  end
  local whole = model:generate_bytes(bytes_of(prompt), config, nil)
  equal(ids_of(whole:get_tokens_bytes()), expected)
  equal(generator:finish():get_text(), whole:get_text())
  equal(whole:get_finish_reason(), 'LENGTH')
  equal(whole:get_figures().tokens_emitted, 12)
end)

test('a grammar bounds the reply', function ()
  local grammar = TinyLoop.Grammar.new_regex('(red|green) light', -1, {})
  equal(grammar:accepts(GLib.Bytes.new('red light')), true)
  equal(grammar:accepts(GLib.Bytes.new('red')), false)
  local reply = model:generate_bytes(bytes_of(prompt), TinyLoop.GenerateConfig { grammar = grammar }, nil)
  equal(reply:get_text() == 'red light' or reply:get_text() == 'green light', true)
  equal(reply:get_finish_reason(), 'GRAMMAR_COMPLETE')

  local matcher = grammar:create_matcher()
  local first = ids_of(reply:get_tokens_bytes())[#prompt + 1]
  equal(matcher:get_mask(0).data:byte(first // 8 + 1) >> (first % 8) & 1, 1)
  equal(matcher:advance(first), true)
  equal(matcher:is_accepting(), false)
end)

test('a score is a tensor of floats', function ()
  local tensor = model:score_last_bytes(bytes_of(prompt), TinyLoop.GenerateConfig { loops = 3 }, nil)
  equal({ tensor:get_dtype(), tensor:get_n_dims(), tensor:get_dim(0) }, { 'float32', 1, model.vocab_size })
  local best, logits = 1, unpacked('=f', tensor:dup_bytes().data)
  for i, logit in ipairs(logits) do
    if logit > logits[best] then best = i end
  end
  local greedy = model:generate_bytes(bytes_of(prompt), TinyLoop.GenerateConfig { loops = 3, max_tokens = 1 }, nil)
  equal(ids_of(greedy:get_tokens_bytes())[#prompt + 1], best - 1)

  local scores = model:score_with_consistency_bytes(bytes_of(prompt), nil, nil)
  local names = {}
  for i = 1, scores:get_n() do
    names[i] = scores:get_name(i - 1)
  end
  equal(names, { 'logits', 'argmax', 'stable_from', 'consistent' })
end)

test('errors have the domain and code of the library', function ()
  fails('INVALID_ARGUMENT', model:begin(bytes_of { model.vocab_size }, nil))
  fails('INVALID_ARGUMENT', TinyLoop.Grammar.new_regex('a(', -1, {}))
  fails('BAD_FILE', TinyLoop.Model.new('no-such.tinyloop'):load(nil))
end)

test('a closed model says so', function ()
  model:close()
  fails('CLOSED', model:generate_bytes(bytes_of(prompt), nil, nil))
end)

local bad = 0
print(('1..%d'):format(#tests))
for i, one in ipairs(tests) do
  local ok, message = xpcall(one.run, debug.traceback)
  print(('%s %d - %s'):format(ok and 'ok' or 'not ok', i, one.name))
  if not ok then
    bad = bad + 1
    print('# ' .. tostring(message):gsub('\n', '\n# '))
  end
end
os.exit(bad == 0)
