#!/usr/bin/env node
// Starts the program, which is in the package for this platform.
'use strict';

const { constants } = require('node:os');
const { spawn } = require('node:child_process');
const { isatty } = require('node:tty');

const platform = `aetheel-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/bin/aetheel`);
} catch {
  console.error(`error: the package ${platform} is not installed; hint: there are packages for Linux on x64 and arm64, and npm leaves them out with --omit=optional`);
  process.exit(69);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
child.on('error', (error) => {
  console.error(`error: cannot start ${program}: ${error.message}`);
  process.exit(69);
});

// A terminal also sends these signals to the program, which must not get them twice. `isatty` is
// used because access to `process.stdin` would make the descriptor non-blocking, and the program
// would interpret a pause as the end of input.
const atTerminal = isatty(0) ? ['SIGINT', 'SIGQUIT', 'SIGHUP'] : [];
for (const signal of ['SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGTERM', 'SIGUSR2']) {
  process.on(signal, () => {
    if (!atTerminal.includes(signal)) child.kill(signal);
  });
}
child.on('exit', (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
