// What tools are called and what they are about.
#pragma once

#include "actions.h"
#include "json.h"

// Reports the use of a tool from a `tool_use` line, and the plan where it makes one.
void tool_use(json message, struct actions *out);
// Reports its end from a `tool_result` line.
void tool_result(json message, struct actions *out);
