"""tests/tap.py — unittest with one TAP line a test, for programs that meson runs with `protocol: 'tap'`."""
import os
import sys
import unittest


class _Result(unittest.TextTestResult):
    def stopTest(self, test):
        super().stopTest(test)
        bad = [text for failed, text in self.failures + self.errors
               if failed is test or getattr(failed, "test_case", None) is test]
        reasons = [reason for skipped, reason in self.skipped if skipped is test]
        skip = f" # SKIP {reasons[0]}" if reasons else ""
        print(f"{'not ok' if bad else 'ok'} {self.testsRun} - {test.id().split('.', 1)[1]}{skip}", flush=True)
        for line in "".join(bad).splitlines():
            print("# " + line, flush=True)


def main():
    """runs the tests of the calling program and ends it"""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    print(f"1..{suite.countTestCases()}", flush=True)
    with open(os.devnull, "w") as nowhere:
        result = unittest.TextTestRunner(stream=nowhere, resultclass=_Result).run(suite)
    sys.exit(not result.wasSuccessful())
