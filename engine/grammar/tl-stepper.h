/* engine/grammar/tl-stepper.h — one byte further in an NFA: a sorted set of configurations to the next.
 *
 * A configuration is `stride` words: instruction, progress inside a UTF-8 sequence, one word per counter. Configurations that
 * others cover (same place, counters that allow no more) are dropped. Scratch memory only; one thread at a time.
 */
#pragma once

#include "grammar/tl-nfa.h"

G_BEGIN_DECLS

#define TL_STEPPER_MAX_CONFIGURATIONS 4096
#define TL_STEPPER_MAX_WORK (1000 * 1000)   /* instructions visited in one operation of the automaton: about 0.1 s */

typedef struct _TlStepper TlStepper;

typedef struct
{
  const guint32 *words;         /* the next set; valid until the next call */
  guint n;                      /* configurations; 0: dead */
  guint8 lo, hi;                /* every byte from lo to hi leads to the same set */
  gboolean counted;             /* a counter went up */
  gboolean failed;              /* a limit was passed; the set is incomplete */
} TlStep;

TlStepper *tl_stepper_new (const TlNfa *nfa);
void tl_stepper_free (TlStepper *stepper);
guint tl_stepper_get_stride (const TlStepper *stepper);
void tl_stepper_begin (TlStepper *stepper);
TlStep tl_stepper_start (TlStepper *stepper);
TlStep tl_stepper_step (TlStepper *stepper, const guint32 *words, guint n, guint8 byte);
guint tl_stepper_generalise (const TlStepper *stepper, guint32 *words, guint n, guint horizon);
gboolean tl_stepper_mark_dead (TlStepper *stepper, TlNfa *nfa);

G_END_DECLS
