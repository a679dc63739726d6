;; An implementation of WASI preview 1 for a guest without WASI. It handles the calls of the C, Zig and Go runtimes inside the
;; component, so that the component imports nothing. There are no files, arguments or environment variables. Written bytes are
;; discarded. Random numbers are the same in every link.
;;
;; The clock starts at the year 2000 and advances by one microsecond at each reading, so that a runtime which waits for time to
;; pass does not wait forever. Go's garbage collector reads the clock during `cabi_realloc`, where a component must not call its
;; imports. This is another reason to implement the clock here.
;;
;; Error numbers: 8 is a bad file descriptor, 44 means no such file, 52 means not supported.
(module
  (import "env" "memory" (memory 0))
  (global $now (mut i64) (i64.const 946684800000000000))
  (global $seed (mut i64) (i64.const 0x9E3779B97F4A7C15))

  (func (export "clock_time_get") (param i32 i64 i32) (result i32)
    (global.set $now (i64.add (global.get $now) (i64.const 1000)))
    (i64.store (local.get 2) (global.get $now))
    (i32.const 0))
  (func (export "clock_res_get") (param i32 i32) (result i32)
    (i64.store (local.get 1) (i64.const 1000))
    (i32.const 0))
  ;; Go calls this while an adapter must not call its imports. This module has no imports.
  (func (export "adapter_monotonic_clock_set_paused") (param i32))

  (func (export "random_get") (param $at i32) (param $count i32) (result i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (global.set $seed (i64.add (i64.mul (global.get $seed) (i64.const 6364136223846793005)) (i64.const 1442695040888963407)))
        (i32.store8 (local.get $at) (i32.wrap_i64 (i64.shr_u (global.get $seed) (i64.const 33))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  ;; Reports all bytes as written; otherwise a guest that prints would retry forever.
  (func $swallow (param $vectors i32) (param $count i32) (param $written i32) (result i32)
    (local $sum i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (local.set $sum (i32.add (local.get $sum) (i32.load offset=4 (local.get $vectors))))
        (local.set $vectors (i32.add (local.get $vectors) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $sum))
    (i32.const 0))
  (func (export "fd_write") (param i32 i32 i32 i32) (result i32)
    (call $swallow (local.get 1) (local.get 2) (local.get 3)))
  ;; Reports the end of the file.
  (func (export "fd_read") (param i32 i32 i32 i32) (result i32)
    (i32.store (local.get 3) (i32.const 0))
    (i32.const 0))
  ;; Reports a character device, so that runtimes do not seek.
  (func (export "fd_fdstat_get") (param i32 i32) (result i32)
    (i64.store (local.get 1) (i64.const 2))
    (i64.store offset=8 (local.get 1) (i64.const 0))
    (i64.store offset=16 (local.get 1) (i64.const 0))
    (i32.const 0))
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) (i32.const 0))
  (func (export "fd_close") (param i32) (result i32) (i32.const 0))

  (func (export "args_sizes_get") (param i32 i32) (result i32)
    (i32.store (local.get 0) (i32.const 0))
    (i32.store (local.get 1) (i32.const 0))
    (i32.const 0))
  (func (export "args_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "environ_sizes_get") (param i32 i32) (result i32)
    (i32.store (local.get 0) (i32.const 0))
    (i32.store (local.get 1) (i32.const 0))
    (i32.const 0))
  (func (export "environ_get") (param i32 i32) (result i32) (i32.const 0))

  ;; Returns at once without events, so that a waiting runtime reads the clock again.
  (func (export "poll_oneoff") (param i32 i32 i32 i32) (result i32)
    (i32.store (local.get 3) (i32.const 0))
    (i32.const 0))
  (func (export "sched_yield") (result i32) (i32.const 0))
  (func (export "proc_exit") (param i32) unreachable)
  (func (export "proc_raise") (param i32) (result i32) unreachable)

  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_datasync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_renumber") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_sync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_tell") (param i32 i32) (result i32) (i32.const 8))

  (func (export "path_create_directory") (param i32 i32 i32) (result i32) (i32.const 44))
  (func (export "path_filestat_get") (param i32 i32 i32 i32 i32) (result i32) (i32.const 44))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 44))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 44))
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) (i32.const 44))
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 44))
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32) (i32.const 44))
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 44))
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32) (i32.const 44))
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32) (i32.const 44))

  (func (export "sock_accept") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_shutdown") (param i32 i32) (result i32) (i32.const 52))
)
