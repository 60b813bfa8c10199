"""tile_kernels: compiles Tile IR bytecode into a C library, with the code for several GPUs.

    load("//third_party/tileworks:tileworks.bzl", "tile_kernels")

    tile_kernels(
        name = "kernels",
        srcs = ["clamp.tileirbc", "vadd.tileirbc"],
        targets = ["sm_80", "sm_90"],
    )

    cc_binary(name = "app", srcs = ["app.c"], deps = [":kernels"])

app.c includes clamp.h, which declares the fatbin clamp_fatbin. The tools, ptxas and libdevice are inputs of each action, so the actions
run in a sandbox and their results can be cached.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")

def tile_kernels(
        name,
        srcs,
        targets,
        options = [],
        driver = "//third_party/tileworks:bin/tileiras",
        tools = "//third_party/tileworks:tools",
        ptxas = "//third_party/cuda:bin/ptxas",
        toolkit = "//third_party/cuda:toolkit",
        **kwargs):
    """Compiles each bytecode file to a C source file and a header, and collects them in a cc_library.

    Args:
      name: Name of the cc_library.
      srcs: Bytecode files.
      targets: GPUs, such as sm_90.
      options: More options of tileiras.
      driver: tileiras.
      tools: The stages, in the folder of tileiras.
      ptxas: ptxas, in the folder `bin` of the toolkit.
      toolkit: The toolkit, with libdevice.
      **kwargs: Passed to cc_library.
    """
    sources, headers = [], []
    words = ["--gpu-name=" + target for target in targets] + options
    for src in srcs:
        stem = src.rsplit("/", 1)[-1].rsplit(":", 1)[-1].rsplit(".", 1)[0]
        source, header = name + "/" + stem + ".c", name + "/" + stem + ".h"
        native.genrule(
            name = name + "_" + stem,
            srcs = [src],
            outs = [source, header],
            tools = [driver, tools, ptxas, toolkit],
            cmd = "CUDA_ROOT=$$(dirname $$(dirname $(execpath {ptxas}))) $(execpath {driver}) $(location {src}) {words} ".format(
                ptxas = ptxas,
                driver = driver,
                src = src,
                words = " ".join(words),
            ) + "--emit=c-array --c-header=$(location {header}) -o $(location {source})".format(header = header, source = source),
        )
        sources.append(source)
        headers.append(header)
    cc_library(name = name, srcs = sources, hdrs = headers, includes = [name], **kwargs)
