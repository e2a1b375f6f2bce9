# SPDX-License-Identifier: Apache-2.0
"""What is held against each folder: its libraries, and the tests and fuzzers that reach it, the likeliest and cheapest first.

A word with a dot before it is a fuzzer of tests/fuzz; one that CMake knows is a test of CMake's; others are files in tests/python.
"""

import re
import typing

LIBRARIES = {
    "compiler/passes": ("ingot_passes",),
    "compiler/fusion": ("ingot_fusion",),
    "compiler/loop": ("ingot_loop",),
    "compiler/plan": ("ingot_plan",),
    "client/lib": ("ingot_artifact", "ingot_exported", "ingot_connection", "ingot_threads", "ingot_client"),
    "client/native": ("ingot_recorder", "ingot_observer", "_native"),
    "client/onnx": ("ingot_onnx_wire", "ingot_onnx"),
}

_SOON = "test_simplified test_writes_in_place test_result_memory test_serving_fusions test_indices test_conversions test_discrete_results"
_LATE = "test_bounds test_lowering_pairs test_tensor_programs test_operator_sizes test_tied_strides test_quantized_graphs test_models test_values"
_CHECKS = {
    "compiler/passes": f"""ingot_passes_test golden_test golden_proof_test fuzz.passes compiler_test test_known_values test_patterns test_decompose {_SOON} .tensors .pairs
        test_products test_convolutions test_sequence_parallel test_numerics {_LATE}""",
    "compiler/fusion": f"""fusion_test golden_test golden_proof_test proof_test compiler_test test_borders {_SOON} .tensors .pairs .products
        test_products test_convolutions test_numerics test_top_k test_product_programs {_LATE}""",
    "compiler/loop": f"""loop_test fuzz.loop_text fusion_test targets_test golden_test compiler_test proof_test golden_proof_test {_SOON} .tensors
        .pairs test_float8 test_numerics test_products test_profile x86_test {_LATE}""",
    "compiler/plan": f"""compiler_test golden_test golden_proof_test program_test function_test fuzz.artifact {_SOON} .tensors .archives .pairs
        test_custom_ops test_operators_that_write test_profile test_products test_top_k test_convolutions test_rivals test_tuning {_LATE}""",
    "client/lib": """loaded_artifact_test exported_file_test best_of_test threads_test guard_table_test program_test function_test archive_test fuzz.manifest
        fuzz.shared_object fuzz.exported_file fuzz.safetensors client_test integration_test onnx_test test_result_memory test_exported
        test_writes_in_place test_guards_property .tensors .sizes .archives test_archives test_top_k test_float8 test_explain test_inspect_files
        test_profile test_threads test_processes test_gears test_waiting test_foreign_operators test_operator_registry test_sequence_parallel test_ranks
        test_operator_sizes test_tied_strides test_tensor_programs test_values""",
    "client/native": """recorder_python test_paths test_callables test_digests test_instructions test_made_objects test_classes test_unfaithful_calls
        test_changed_arguments test_given_numbers test_number_arguments test_numbers_in_tuples test_tensor_numbers test_result_memory test_own_methods
        test_changes test_unseen_reads test_getters test_second_ways test_lookups_of_native_code test_context_settings
        test_changed_between_calls test_moving_state test_new_objects .programs .state .classes .pieces .sizes .aliases
        test_one_recording test_compile test_guards_property test_guard_policies test_facade test_pieces test_parts test_agreed test_verification
        test_exported test_custom_ops test_operators_that_write test_user_kernels test_profile test_explain test_waiting test_exit test_gears test_dynamo test_mutations
        mem_pool_test trials_test test_never_slower test_cache_compile test_daily_programs test_processes test_second_process test_interrupts test_programs test_ranks""",
    "client/onnx": """onnx_test fuzz.onnx_model test_onnx_answers test_onnx_operators .onnx test_onnx test_onnx_control test_onnx_decoders
        test_onnx_random test_onnx_types""",
}
# What no fault in these folders is looked for by.
ELSEWHERE = {
    "other folders": """base_test guards_test proto_test kernels_test cache_test trust_test index_test redis_test s3_test ingot_ir_test ingot_ops_test
        ingot_import_test ingot_serve_test ingot_daemon_test ingot_web_test ingot_bundle_test ingot_serve_process_test ingot_cli_test ingot_moving_test
        ingot_trust_verb_test simulation_test cli_test fuzz.dim_text fuzz.guard_text fuzz.graph_text fuzz.recording fuzz.frame fuzz.message fuzz.compile_eta
        fuzz.request fuzz.key fuzz.row fuzz.provenance fuzz.trust_text fuzz.s3_record fuzz.redis_reply fuzz.s3_xml fuzz.profiles fuzz.server_url fuzz.capture_file
        fuzz.bundle_file fuzz.web_target fuzz.export_archive fuzz.config_text""",
    "Python of ours": """test_adopting test_code_objects test_config test_cutting test_export_capture test_fx_passes test_package test_quantizing test_schemas
        test_types test_ways_in test_readme test_messages test_beyond_versions test_recorder test_deferred""",   # the last two are CMake's recorder_python
    "attacks on the daemon": "test_secrets test_places test_page test_rights",
    "attacks by files, on programs": "test_models_in_sandbox test_signed_files",
    "minutes for little more": "test_opinfo test_architectures test_mutants",
    "fuzzers of Python, and themselves": ".interrupts .mutants",
}


class Fuzzer(typing.NamedTuple):
    arguments: str    # of SECONDS and SEED


FUZZERS = {
    "tensors": Fuzzer("SECONDS --seed SEED --no-keep"),
    "pairs": Fuzzer("--triples 25 --seed SEED"),
    "products": Fuzzer("60 --first SEED"),
    "archives": Fuzzer("SECONDS --seed SEED"),
    "onnx": Fuzzer("SECONDS --seed SEED"),
    "sizes": Fuzzer("SECONDS --seed SEED"),
    "state": Fuzzer("SECONDS --first SEED"),
    "pieces": Fuzzer("SECONDS --first SEED"),
    "aliases": Fuzzer("SECONDS --first SEED"),
    "classes": Fuzzer("SECONDS --first SEED"),
    "programs": Fuzzer("SECONDS --seed SEED --shrink 0 --keep FOLDER"),
}


def units(folder: str) -> "list[str]":
    """Those of CMake's, which start soon."""
    listed = _CHECKS[folder].split()
    return listed[: next(at for at, name in enumerate(listed) if name.startswith((".", "test_")))]


def checks(folder: str, path: str = "") -> "list[str]":
    """In order; behind the unit tests, what has a word of the file's name comes first."""
    first = units(folder)
    words = set(_words(path.rsplit("/", 1)[-1].split(".")[0]))
    return first + sorted(_CHECKS[folder].split()[len(first):], key=lambda name: not words & set(_words(name)))


def everything() -> "list[str]":
    return [name for text in (*_CHECKS.values(), *ELSEWHERE.values()) for name in text.split()]


def _words(name: str) -> "list[str]":
    return [word.rstrip("s") for word in re.split(r"[_.]", name) if word not in ("test", "lower", "fuzz", "")]
