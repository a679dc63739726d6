// Classifies failures of Gemini CLI from its result or stderr.
#pragma once

#include "actions.h"

failure_kind kind_of_words(struct text words);
// Returns the failure for a message of the model provider.
failure failure_of_message(struct text message);
// Returns why a process ended without a result, from the end of its stderr.
failure failure_at_exit(struct text stderr_summary);
