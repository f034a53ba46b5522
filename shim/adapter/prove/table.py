# SPDX-License-Identifier: MIT
"""table: {fingerprint: shape} of the functions that the families' tables know. scripts/shapes.py
writes it."""
SHAPES = {
    "00517fd062": "f6b7015632b87753", "02579fc775": "57937c24aa137c71", "0d01af7c78": "ce7e66e195d30920",
    "124b33c5a9": "3134965f8b7b86ab", "14f2f2e52c": "31cf1fe7a6ed13c1", "18d5836dea": "8fbfb1b07c6d46af",
    "1e2cd0c48e": "c4705c54b455bd85", "1f321c847e": "cdb324222da433c8", "20c9778c7c": "ce87ce8416c1b0b1",
    "27f34f4cd8": "3134965f8b7b86ab", "2faaea6f17": "d061eb93197b28f3", "30a1966420": "46c6d8eb5db5a93d",
    "36f80da51e": "8e7d5686e4a8bdcf", "38cdccc373": "e205178302ab47bd", "3e128bbcf5": "a9be4dff1a2527cd",
    "3fb5fbff4f": "5d7b299c2a0a0794", "492dd07a25": "0400868158d2a762", "4cbabafc6f": "b19eee36449af4a2",
    "50c093abe7": "8701cc229c476f95", "52a199f75d": "d061eb93197b28f3", "5b65e1d8cd": "8fbfb1b07c6d46af",
    "5bc9ad9eda": "a8666a6e24a89fa9", "5ffde4d5da": "40940ea925ec72d5", "603c6fddc8": "83001d2123f22836",
    "6285735c3d": "129ba25c6ac408b7", "66b6e858e4": "10f693add2c7587f", "7052bdd374": "ee7daa856c82c165",
    "751dbfeaad": "b9c0ac5a6754c268", "75a4a756c1": "4bccf6deaaca99e7", "826c108506": "71fc8033c8682528",
    "863de35193": "7563e1adb8643d9d", "93d6161bdb": "4ac25f02117a0d88", "9c5da3eaff": "3134965f8b7b86ab",
    "9e1cabbeac": "8113c0cb069ef033", "9f4402f572": "46c6d8eb5db5a93d", "9fe9ef45e5": "1db40b62bb5251ec",
    "a83de9ee1f": "c4705c54b455bd85", "a87c8cab2f": "54690949c5526d01", "a89f1087a8": "c9bcde83c443799a",
    "aafd551f3c": "9f80417a60a888b1", "b211fdf32d": "a8666a6e24a89fa9", "b94cdac938": "5fc00e1bf1ef5207",
    "bc23e3a535": "50581e277a83cece", "be47e90a73": "e2219dd0fcf09a38", "c485ec8518": "f7912e5724990304",
    "c6b3021f1d": "251ebb238f683da0", "ccb0511c8d": "9743b7a7699a42ac", "cf3aaae488": "07fc58ee2d742fd8",
    "d04f411da6": "07fc58ee2d742fd8", "d199fbdb96": "7eb7a8c690710954", "d47346983d": "aa6c011a500ba9c0",
    "e47459c392": "9f80417a60a888b1", "e71873ebd5": "5bd219dfc2b636fd", "eb7966ce4f": "06920c27079f8f15",
    "ebc9a99fee": "f26c824ebdc759af", "ef9f5ec340": "a09bf9d0964d1067", "f33f53e9ef": "40940ea925ec72d5",
    "f4ac648720": "dc756408d48ca0c1", "f89ef0a86c": "18ed22ffd54dd898", "f9b4be2043": "8701cc229c476f95",
    "fc7c46c0c3": "b4c7c844e7b8bc76",
}
