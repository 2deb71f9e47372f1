"""The commands of `npu-warden`, one file per group of commands, imported only when one of them runs."""
