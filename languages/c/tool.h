// Tool calls: names, targets and results.
#pragma once

#include "actions.h"
#include "json.h"

// Reports the use of a tool from a `tool_use` line, and the plan if it has one.
void tool_use(json message, struct actions *out);
// Reports the end of a tool use from a `tool_result` line.
void tool_result(json message, struct actions *out);
