"""tools/check_nccl_xml.py: what it accepts, what it refuses and in which line, and what it says NCCL plans with."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_nccl_xml as checker  # noqa: E402

GOOD = """<!-- invented -->
<system version="1">
  <cpu numaid="1" affinity="ff0000,00000000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:0a:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:0b:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="1" gdr="1">
          <nvlink target="0000:0c:00.0" count="6" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:0c:00.0" class="0x030200" link_speed="" link_width="0">
        <gpu dev="1" sm="90" rank="0" gdr="1">
          <nvlink target="0000:0b:00.0" count="6" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:0d:00.0" class="0x020700" link_speed="32 GT/s PCIe/s" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" latency="0" port="1" guid="0x1" maxconn="64" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"/>
</system>
"""


class CheckNcclXml(unittest.TestCase):
    def refused(self, old, new):
        self.assertIn(old, GOOD)
        with self.assertRaises(checker.Refused) as caught:
            checker.load(GOOD.replace(old, new, 1))
        return caught.exception

    def test_a_good_file_is_accepted_with_its_rates(self):
        pairs = {(p["a"], p["b"]): (p["class"], p["GBps"]) for p in checker.load(GOOD).pairs()}
        self.assertEqual(pairs[("gpu0", "gpu1")], ("NVL", 123.6))  # 6 x 20.6
        self.assertEqual(pairs[("gpu0", "mlx5_0")], ("PIX", 12.0))  # no speed counts as Gen3 x16
        self.assertEqual(pairs[("gpu1", "mlx5_0")], ("PIX", 24.0))

    def test_each_oddity_is_refused_in_its_line(self):
        cases = [
            ('<system version="1">', "<system>", 2, "version"),
            ('modelid="143">', ">", 3, "modelid"),
            ('affinity="ff0000,00000000"', 'affinity="0-3"', 3, "affinity"),
            ('busid="0000:0b:00.0"', 'busid="0000:0a:00.0"', 5, "twice"),
            ('busid="0000:0b:00.0"', 'busid="0000:0B:00.0"', 5, "bus id"),
            ('class="0x030200"', 'class="030200"', 5, "class"),
            ('link_speed="16.0 GT/s PCIe"', 'link_speed="17 GT/s"', 5, "17 GT/s"),
            ('rank="1"', 'rank="0"', 11, "rank 0"),
            ('sm="90"', 'sm="9.0"', 6, "sm"),
            ('count="6"', 'count="5"', 7, "5 links"),
            ('tclass="0x030200"', "", 7, "tclass"),
            ("<nic>", "<nix>", 18, "nic"),
            ('speed="400000"', 'speed="fast"', 17, "speed"),
            ("</gpu>", "text</gpu>", 8, "no tag"),
            ('vendor="GenuineIntel"', 'vendor="Genuine&quot;<Intel"', 3, "no tag"),
        ]
        for old, new, line, word in cases:
            with self.subTest(new=new):
                refused = self.refused(old, new)
                self.assertEqual(refused.line, line, str(refused))
                self.assertIn(word, str(refused))

    def test_what_is_cut_off_is_refused(self):
        for end in range(20, len(GOOD) - 2, 37):
            with self.assertRaises(checker.Refused):
                checker.load(GOOD[:end])

    def test_limits_of_nccl_s_reader_hold(self):
        self.refused('numaid="1"', 'numaid="1" ' + " ".join(f'a{i}="1"' for i in range(16)))
        self.refused('name="mlx5_0"', f'name="{"x" * 256}"')

    def test_switches_of_one_chip_are_one(self):
        ids = 'vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa096" '
        inner = f'<pci busid="0000:0e:00.0" class="0x060400" {ids}link_speed="16.0 GT/s PCIe" link_width="16">'
        text = GOOD.replace('class="0x060400" ', f'class="0x060400" {ids}', 1)
        text = text.replace('      <pci busid="0000:0d', f'      {inner}\n      <pci busid="0000:0d', 1).replace(
            "    </pci>\n  </cpu>", "    </pci>\n    </pci>\n  </cpu>", 1)
        pairs = {(p["a"], p["b"]): p["class"] for p in checker.load(text).pairs()}
        self.assertEqual(pairs[("gpu1", "mlx5_0")], "PIX")
        text = text.replace("0xa096", "0xb096")
        pairs = {(p["a"], p["b"]): p["class"] for p in checker.load(text).pairs()}
        self.assertEqual(pairs[("gpu1", "mlx5_0")], "PXB")


if __name__ == "__main__":
    unittest.main()
