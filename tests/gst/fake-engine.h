/* tests/gst/fake-engine.h — what a test tells the fake engine before and while elements run on it. */
#pragma once

#include <glib.h>

/* before every test: nothing blocks, nothing fails */
void fake_engine_reset (void);
/* tokens of every reply, as bytes; a prompt's byte is its token */
void fake_engine_script (const char *const *pieces, guint n_pieces);
void fake_engine_fail_at (int token);           /* the step that would give this token is an error */
void fake_engine_block_at (int token);          /* … waits until released or cancelled */
void fake_engine_wait_blocked (void);
void fake_engine_release (void);
void fake_engine_block_load (gboolean block);
guint fake_engine_committed (void);             /* tokens of the last commit */
guint fake_engine_truncated (void);
guint fake_engine_truncations (void);              /* tokens that the last truncate kept */
guint fake_engine_loads (void);
guint fake_engine_models_alive (void);
guint fake_engine_models_left (void);           /* … once loaders had time to let go */
guint fake_engine_replies_alive (void);
guint fake_engine_sequences_alive (void);
const char *fake_engine_grammar (void);         /* of the reply that was begun last, or NULL */
guint fake_engine_updates (void);               /* of how the next token is drawn */
