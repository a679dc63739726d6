// Why Gemini CLI failed, from what it says in a result or on stderr.
#pragma once

#include "actions.h"

failure_kind kind_of_words(struct text words);
// The failure that a message of the model's service tells.
failure failure_of_message(struct text message);
// Why a process ended without a result, from the end of its stderr.
failure failure_at_exit(struct text stderr_summary);
