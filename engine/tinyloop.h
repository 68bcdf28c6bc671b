/* tinyloop.h — the whole public API. */
#pragma once

#include "decode/tl-generate-config.h"
#include "decode/tl-generation.h"
#include "decode/tl-generator.h"
#include "grammar/tl-grammar.h"
#include "grammar/tl-token-trie.h"
#include "score/tl-drawing.h"
#include "score/tl-scores.h"
#include "score/tl-tensor.h"
#include "text/tl-chat-template.h"
#include "text/tl-detokenizer.h"
#include "text/tl-tokenizer.h"
#include "tl-conversation.h"
#include "tl-convert.h"
#include "tl-error.h"
#include "tl-model.h"
#include "tl-sequence.h"
