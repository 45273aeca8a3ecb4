/* SPDX-License-Identifier: BSD-3-Clause */
/* tools.h - everything that the programs use of the library besides include/tstream.h.
 *
 * The programs are linked with the library and could use anything in it. They may use the names
 * listed here, with their types and constants, and include no other header of src/. So this file
 * shows what a change inside of the library may break in tools/. tests/house/check_layers.sh
 * enforces the list in both directions. Before you add a name: what other programs would want
 * belongs in tstream.h, and tools/ must use what tstream.h has.
 *
 *   errors   struct ts_err, where tstream.h has ts_error: a code and one sentence
 */
#ifndef TS_API_TOOLS_H
#define TS_API_TOOLS_H

/* ---- errors, stops, what is undone when a process ends early ---- */

/* errors, a code and one sentence: ts_fail, ts_fail_errno, ts_vfail */
#include "base/err.h"
/* the commit of this build: ts_version_commit */
#include "api/version.h"
/* messages name settings as options: ts_setting_words */
#include "base/setting.h"
/* the stop flag: ts_stop_ask, ts_stop_asked, ts_stop_check, ts_stop_number */
#include "base/stop.h"
/* files that a process must remove when it ends early: ts_unfinished_undo */
#include "base/files/unfinished.h"

/* ---- the command line ---- */

/* tables of options: ts_opt_parse, ts_opt_defaults, ts_opt_text, ts_opt_nearest, ts_opt_help,
 * ts_opt_brief, ts_opt_man, ts_opt_shown, ts_opt_old */
#include "base/opt.h"
/* how rows of base/settings.def become options. That file is the only other one that
 * tools/ includes, once for each use */
#include "base/setting_kind.h"

/* ---- JSON ---- */

/* JSON writer: struct ts_json, ts_json_open, ts_json_str, ts_json_u64, ts_json_i64, ts_json_f64,
 * ts_json_bool, ts_json_array, ts_json_object, ts_json_close, ts_json_options,
 * ts_json_utf8_length, ts_json_code_point, ts_json_acts */
#include "base/json.h"
/* JSON reader, for files of these programs: ts_json_read_in, ts_json_of, ts_json_free,
 * ts_json_get, ts_json_text, ts_json_number */
#include "base/json_read.h"

/* directories that may be replaced while they are read: ts_open_dir_new, ts_open_dir_inside,
 * ts_open_dir_optional, ts_open_dir_stale, ts_open_dir_fail, ts_open_dir_replaced,
 * ts_open_dir_fd, ts_open_dir_close */
#include "base/files/open_dir.h"

/* ---- numbers: as people read them, exactly, in any locale; hashed ---- */

/* numbers for people to read: ts_num_bytes, ts_num_count, ts_num_duration, ts_num_plural,
 * ts_num_seconds, ts_num_short */
#include "base/num.h"
/* numbers with the fewest digits that reproduce them: ts_decimal_f32, ts_decimal_f64,
 * ts_decimal_u64 */
#include "base/decimal.h"
/* parses numbers with a point, in any locale: ts_strtod */
#include "base/c_locale.h"
/* a hash of numbers: ts_mix */
#include "base/rng.h"

/* ---- the machine: its limits, threads, clocks, large memory, a record of what ran when ---- */

/* limits of the machine and of this process: ts_machine_get, ts_machine_peak_bytes,
 * ts_machine_share */
#include "base/machine/machine.h"
/* number of threads: ts_threads_get */
#include "base/machine/threads.h"
/* starts a thread with signals masked: ts_thread_new */
#include "base/machine/thread.h"
/* a clock of nanoseconds: ts_clock_ns */
#include "base/clock.h"
/* large memory in whole pages: ts_bigmem_new, ts_bigmem_free */
#include "base/machine/bigmem.h"
/* trace of reads, copies and kernels over time: ts_trace_open, ts_trace_close, ts_trace_drop,
 * ts_trace_add, ts_trace_group, ts_trace_lane */
#include "base/trace.h"

/* ---- results that appear whole or not at all ---- */

/* files and directories that appear only when complete: ts_atomic_file_open, ts_atomic_file_fd,
 * ts_atomic_file_path, ts_atomic_file_commit, ts_atomic_file_close, ts_atomic_dir_fd,
 * ts_atomic_dir_held, ts_atomic_dir_commit */
#include "base/files/atomic_out.h"
/* checks that no output replaces an input: ts_place_check */
#include "base/files/place.h"
/* marks a file as complete: ts_written_end */
#include "base/files/written.h"
/* temporary files without a name: ts_tempfile_new, ts_tempfile_read, ts_tempfile_write */
#include "base/files/tempfile.h"

/* ---- a tensor on disk, for programs that verify, describe and export it ---- */

/* limits of tensors: orders, sizes, blocks */
#include "format/layout.h"
/* an open tensor: ts_tensor_open, ts_tensor_close, ts_tensor_rows, ts_rows_reader_open,
 * ts_rows_reader_next, ts_rows_reader_close, ts_tensor_labels, ts_tensor_labels_lines,
 * ts_tensor_raw_bytes, ts_tensor_read_shard, ts_tensor_block, ts_tensor_value,
 * ts_tensor_weighted, ts_tensor_bytes_per_nnz, ts_tensor_entropy_bound */
#include "format/tensor.h"
/* tensors of shards and dense tensors: ts_tensor_open_any, ts_tensor_open_array,
 * ts_tensor_is_array, ts_tensor_is_sparse, ts_tensor_is_unweighted, ts_tensor_partitions */
#include "format/tensor_kind.h"
/* dense tensors: ts_dense_most_bytes, ts_cell_name, ts_dense_get_f64, ts_dense_index;
 * with some of the slices: ts_dense_open, ts_dense_hold */
#include "format/arrays/dense.h"
/* names of dense tensors: ts_array_name_cells, ts_array_name_make, ts_array_name_real */
#include "format/arrays/array_name.h"
/* cells of dense tensors, slab by slab: ts_feed_slabs, ts_slabs_rewind, ts_slabs_leave,
 * ts_slabs_next */
#include "stream/feed/slabs.h"
/* index files of dense tensors: ts_array_index_path, ts_array_index_may_replace,
 * ts_array_index_new, ts_array_index_read, ts_array_index_write */
#include "format/arrays/array_index.h"
/* checksums of dense tensors: ts_dense_scan_alone, ts_dense_scan_sums */
#include "cpu/dense/dense_scan.h"
/* sums over the cells of a tensor: ts_cell_key, ts_cell_sum_term, ts_cell_sum_mix,
 * ts_cell_sum_join, ts_cell_sum_same */
#include "format/cell_sum.h"
/* the file with the sums over cells: ts_tensor_sums_read, ts_cell_sum_text */
#include "format/tensor_sums.h"
/* options with which a tensor was built: ts_kept_read, ts_kept_free, ts_kept_key, ts_kept_of_mode,
 * ts_kept_count, ts_kept_by_option */
#include "format/kept.h"
/* which shards a part of a tensor has: ts_part_has */
#include "format/part.h"
/* segments that were appended: ts_segments_open, ts_segments_close, ts_segments_tensor,
 * ts_segments_follows, ts_segments_merged, ts_segments_set_merger */
#include "format/segments.h"
/* positions and contents of the blocks of a shard: ts_shard_decode, ts_shard_block */
#include "format/shard.h"
/* codes of values and weights in a block: ts_header_codes, ts_weight_of_code, ts_block_weights,
 * ts_block_check_padding */
#include "format/blocks/block_codec.h"
/* labels and indices of many rows: ts_row_names_open, ts_row_names_close, ts_row_names_least,
 * ts_row_names_most, ts_row_index, ts_row_label */
#include "format/row_names.h"
/* a label as a C string: ts_label_string */
#include "format/label_lines.h"
/* how long the name of a mode may be */
#include "format/mode_names.h"

/* builds of tensors: ts_build_paths, ts_build_synth, ts_build_tensor */
#include "build/build.h"
/* transforms of values, parsed from text: ts_transform_parse */
#include "build/kept_text.h"
/* changes of a tensor: ts_append_paths, ts_append_undo, ts_append_merge,
 * ts_append_compact, ts_append_drop */
#include "build/append.h"
/* checks the directory of a build: ts_build_dir_check */
#include "build/build_dir.h"
/* copies some shards of a tensor: ts_part_write, ts_part_shard_bytes */
#include "build/write/part_write.h"
/* sets the memory, shard size and threads of a build: ts_build_budget */
#include "build/room/build_budget.h"
/* memory that a build takes, for tshard plan: ts_build_memory_share */
#include "build/room/build_memory.h"
/* disk space that a build takes, for tshard plan: ts_build_space_estimate */
#include "build/room/build_space.h"
/* free disk space before a build: ts_room_look, ts_room_is_one_disk, ts_room_check,
 * ts_room_may_lack, ts_room_free */
#include "build/room/room.h"
/* free disk space, for tshard plan: ts_disk_free_get, ts_disk_free_of */
#include "base/files/disk_free.h"
/* limits of the table of a tensor's different values */
#include "build/value_table.h"
/* sorts nonzeros in another order: ts_reorder, ts_reorder_block, ts_reorder_sorted,
 * ts_reorder_least, ts_reorder_most */
#include "build/sort/reorder.h"
/* chooses a part of a tensor: ts_pick_ranges, ts_pick_at_least, ts_pick_count_sides,
 * ts_pick_free */
#include "source/tensor_source.h"
/* batches of nonzeros in memory: ts_batch_new, ts_batch_clear, ts_batch_free, ts_value_of_bits */
#include "source/batch.h"
/* reads text in pieces of whole lines: ts_text_input_open, ts_text_input_next,
 * ts_text_input_total, ts_text_input_close */
#include "source/text/text_input.h"
/* endings of text files: ts_text_kind_has_ending */
#include "source/text/text_kind.h"
/* parses lines of text as cells: ts_tns_parse, ts_tns_fields, ts_tns_value, ts_tns_index,
 * ts_tns_add */
#include "source/text/tns_text.h"
/* fields in lines of tables: ts_csv_next, ts_csv_go_on, ts_csv_skip_blanks, ts_csv_is_end,
 * ts_csv_is_index, ts_csv_quote */
#include "source/text/csv_field.h"
/* the generator of tensors, one nonzero at a time: ts_synth_init, ts_synth_draw,
 * ts_synth_planted */
#include "source/synth/synth.h"
/* parses bins and units of time: ts_time_bin_parse, ts_time_unit_parse; parses times:
 * ts_time_read */
#include "source/text/time_bin.h"
#include "source/text/time_text.h"
/* formats of compression that this build reads: ts_decompress_names */
#include "source/packed/decompress.h"

/* ---- ranks: processes that compute one decomposition together ---- */

/* messages between ranks (processes) */
#include "stream/comm.h"
/* ranks by MPI, only in tshard-mpi and tstream-mpi: ts_comm_mpi_open, ts_comm_mpi_beside,
 * ts_comm_mpi_version, ts_comm_mpi_close */
#include "mpi/comm_mpi.h"

/* ---- a run: tensor, processor, memory and feed; and plans of one ---- */

/* the engine: tensor, processor, memory and feed of a run: ts_engine_open, ts_engine_model,
 * ts_engine_close */
#include "engine/engine.h"
/* memory and bytes that a run would take, for a plan: ts_dry_run */
#include "engine/dry_run.h"
/* resident memory of the process: ts_engine_memory_resident */
#include "engine/engine_memory.h"
/* a run of one model: ts_run_begin, ts_run_is_under_way, ts_run_alone, ts_run_lead, ts_run_end */
#include "engine/run.h"
/* a run of several models: ts_run_several_open, ts_run_several_has, ts_run_several_take,
 * ts_run_several_all, ts_run_several_close */
#include "engine/run_several.h"
/* the starting factors that a run writes with its result: ts_run_start_find */
#include "engine/run_start.h"
/* status.json, the progress of a run: ts_run_status_start, ts_run_status_end */
#include "engine/run_status.h"
/* the table of several models: ts_models_table_new, ts_models_table_new_folds,
 * ts_models_table_free, ts_models_table_match, ts_models_table_error,
 * ts_models_table_fold_errors, ts_models_table_write, ts_models_table_json,
 * ts_models_table_load, ts_models_table_take */
#include "engine/models_table.h"
/* models.run, the options of a run of several models: ts_models_run_open, ts_models_run_close,
 * ts_models_run_check, ts_models_run_check_place */
#include "engine/models_run.h"
/* the choice of the processor: ts_processor_check, ts_processor_gpus, ts_processor_choose */
#include "engine/processor.h"
/* capabilities of a backend, and times of a pass: ts_backend_can, ts_backend_told */
#include "stream/backend.h"
/* the feed, which reads shards for a backend, and counts of its reads: ts_feed_new, ts_feed_free,
 * ts_feed_rewind, ts_feed_stats */
#include "stream/feed/feed.h"
/* shards that stay in memory, for tstream plan: ts_residency_bytes, ts_residency_stored */
#include "stream/feed/residency.h"
/* reads shards, to measure the disk for a plan: ts_reader_new, ts_reader_kick, ts_reader_free */
#include "stream/feed/reader.h"
/* the instruction set of this processor: ts_isa_best */
#include "base/machine/isa.h"
/* division of work among ranks (processes), for tstream plan: ts_share_cut, ts_share_row_at,
 * ts_share_shard_bytes, ts_share_shards_of */
#include "cpu/ranks/share.h"
/* division of shards among GPUs: ts_balance_even, ts_balance_shares */
#include "stream/balance.h"

/* ---- GPUs: which there are, and how fast they exchange ---- */

/* the shared object for GPUs, with a table of its functions: ts_gpu_part_find */
#include "engine/gpu_part_find.h"

/* ---- methods: alternating least squares, and fits ---- */

/* the solver: ts_solver_run */
#include "cpd/solver/solver.h"
/* checks whether a run can be accelerated: ts_accelerate_check */
#include "cpd/solver/accelerate.h"
/* specifications of models and constraints: ts_spec_any, ts_spec_check, ts_spec_of,
 * ts_spec_penalty, ts_constraint_rigid, ts_spec_skipped, ts_spec_takes_observed, ts_spec_text */
#include "cpd/spec/spec.h"
/* checks whether a model can have the sign of the values: ts_method_lost_sign */
#include "cpd/methods/method.h"
/* losses: ts_loss_parse, ts_loss_of, ts_loss_names, ts_loss_help */
#include "stream/loss.h"
/* starting factors: ts_init_check, ts_init_mode, ts_init_save_bytes */
#include "cpd/solver/init.h"
/* disk space of states: ts_checkpoint_disk */
#include "cpd/state/checkpoint.h"
/* the state from which a run is resumed: ts_resume_open, ts_resume_close */
#include "cpd/state/resume.h"
/* the directories X.cp and X.cp.partial of a run: ts_run_dirs_read, ts_run_dirs_close */
#include "cpd/state/run_dirs.h"
/* options that define a run: ts_run_option */
#include "cpd/state/run_options.h"
/* values of all settings of a run: ts_run_values_spec, ts_run_values_check, ts_run_values_set,
 * ts_run_values_same */
#include "cpd/spec/run_values.h"
/* fractions and folds of nonzeros that are held out: ts_hold_out_part, ts_hold_out_fold */
#include "cpd/spec/hold_out_share.h"
/* members of a saved state of a run: ts_state_get, ts_state_option, ts_state_path, ts_state_sign */
#include "cpd/state/state.h"
/* fits in float64: ts_exact_fit_run, ts_exact_fit_mode, ts_exact_fit_bytes */
#include "cpd/judge/exact_fit.h"
/* fits at known cells: ts_known_fit_run, ts_known_fit_shape, ts_known_fit_wanted */
#include "cpd/judge/known_fit.h"
/* scores of a model at the nonzeros: ts_score_run, ts_score_free, ts_score_bytes */
#include "cpd/judge/score.h"
/* core consistencies: ts_core_run, ts_core_check */
#include "cpd/judge/core_consistency.h"

/* ---- decompositions in files, one or several, even larger than memory ---- */

/* which files belong to a decomposition: ts_models_there, ts_models_there_in, ts_models_kept,
 * ts_models_kept_in, ts_model_kind_of, ts_model_would_be_part */
#include "model/model_files.h"
/* reads a model row by row: ts_model_open, ts_model_open_again, ts_model_open_inside,
 * ts_model_close, ts_model_rows, ts_model_index, ts_model_sign */
#include "model/model_read.h"
/* formats and disk space of models that are written: ts_model_place, ts_model_bytes,
 * ts_model_formats, ts_model_room, ts_model_shape_of */
#include "model/model_write.h"
/* names of modes, and labels of rows: ts_model_names_of_tensor, ts_model_names_keep,
 * ts_model_names_drop, ts_model_names_labels, ts_model_names_check, ts_names_walk_open,
 * ts_names_walk_next, ts_names_walk_close */
#include "model/model_names.h"
/* a model in memory: ts_kruskal_read, ts_kruskal_free */
#include "model/kruskal.h"
/* comparison of two models: ts_match_run, ts_match_pairs, ts_match_assign, ts_match_free */
#include "model/match.h"
/* the largest entries of a column: ts_strongest_new, ts_strongest_add, ts_strongest_sort,
 * ts_strongest_free */
#include "model/strongest.h"

#endif
