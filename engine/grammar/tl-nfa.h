/* engine/grammar/tl-nfa.h — a regex as a program of few instructions, counted repetitions kept as counters.
 *
 * A character class is one instruction, however many byte sequences it has: tl-stepper walks UTF-8 inside it. Anchors and word
 * boundaries depend on the characters on both sides; where any is left after simplification, classes are split by kind of
 * character and counts written out, so that every instruction that can never reach acceptance is known. Immutable.
 */
#pragma once

#include "grammar/tl-regex-tree.h"

G_BEGIN_DECLS

#define TL_NFA_MAX_INSTRUCTIONS 200000
#define TL_NFA_MAX_DEPTH 16     /* counted repetitions inside each other */
#define TL_NFA_NONE G_MAXUINT32

typedef enum
{
  TL_NFA_ACCEPT,
  TL_NFA_CLASS,                 /* one character of class `value`, then `next` */
  TL_NFA_SPLIT,                 /* `next` or `other` */
  TL_NFA_ENTER,                 /* begin loop `value` at `next`; `other` skips it when its minimum is 0 */
  TL_NFA_LOOP,                  /* an iteration of `loop` is done: again, or on to `next` */
  TL_NFA_ASSERT,                /* `value` must hold here */
} TlNfaOp;

/* what assertions can tell apart */
typedef enum { TL_KIND_EDGE, TL_KIND_NEWLINE, TL_KIND_ASCII_WORD, TL_KIND_UNICODE_WORD, TL_KIND_OTHER, TL_N_KINDS } TlKind;
#define TL_KINDS_ALL ((1u << TL_N_KINDS) - 1)

typedef struct
{
  guint8 op, kind;              /* kind of the class's characters (only told apart with assertions) */
  guint8 depth;                 /* counters alive here */
  guint8 dead;                  /* no acceptance behind it */
  guint32 loop;                 /* innermost loop around it, or NONE */
  guint32 next, other, value;
} TlNfaInstruction;

typedef struct
{
  guint32 min, max;             /* iterations; max may be TL_REPEAT_FOREVER */
  guint32 body, parent;
} TlNfaLoop;

typedef struct
{
  GArray *code;                 /* TlNfaInstruction */
  GArray *loops;                /* TlNfaLoop */
  GArray *classes;              /* TlCharClass */
  guint32 start;                /* NONE: nothing matches */
  guint max_depth;
  gboolean has_asserts;
} TlNfa;

TlNfa *tl_nfa_compile (TlRegexTree *tree, GError **error);
void tl_nfa_free (TlNfa *nfa);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlNfa, tl_nfa_free)
guint tl_assert_allows (TlAssert what, TlKind before);

G_END_DECLS
