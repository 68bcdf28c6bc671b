/* gst/tl-deadline.h — how many loops fit into the time a token has left: the estimate behind adaptive-loops.
 *
 * Owned by tldecode's task. A pass is taken to last `fixed + per_loop · loops`; both follow what is measured.
 */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

typedef struct
{
  double fixed, per_loop;       /* ns; per_loop 0: nothing measured yet */
} TlDeadline;

/* a pass of one token at this many loops took this long */
void tl_deadline_note (TlDeadline *self, guint loops, GstClockTime took);
/* the most loops of min … max whose pass ends within `left` ns; min when none does, max before anything was measured */
guint tl_deadline_loops (const TlDeadline *self, GstClockTimeDiff left, guint min, guint max);

G_END_DECLS
