/** Reads the test runner's report. A run with a skipped test or an empty suite does not pass. */
import { existsSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

export interface Suite {
  name: string;
  /** Path prefixes of the test files. */
  under: string[];
}

const suites: Suite[] = [
  { name: 'unit', under: ['src/', 'console/src/'] },
  { name: 'tidy', under: ['test/tidy.test.ts'] },
  { name: 'api', under: ['test/api/'] },
  { name: 'operations', under: ['test/operations/'] },
  { name: 'properties', under: ['test/properties/'] },
  { name: 'scenarios', under: ['test/scenarios/'] },
  { name: 'attacks', under: ['test/attacks/'] },
  { name: 'chaos', under: ['test/chaos/'] },
  { name: 'packages', under: ['test/packages/'] },
  { name: 'outsiders', under: ['test/outsiders/'] },
  { name: 'browser', under: ['test/browser/'] },
];

/** A suite is required if one of its paths exists. */
export const requiredSuites = (root: string): Suite[] =>
  suites.filter(({ under }) => under.some((path) => existsSync(`${root}/${path}`)));

interface ReportedFile {
  name: string;
  status: string;
  message: string;
  assertionResults: { status: string; fullName: string; failureMessages: string[] }[];
}

interface Report {
  success: boolean;
  testResults: ReportedFile[];
}

export interface Outcome {
  passed: number;
  failed: number;
  /** Each failed test by file and name, with the first lines of its message. */
  failures: string[];
  /** Further reasons why the run does not pass. */
  complaints: string[];
}

const maxLines = 6;
const maxCharacters = 600;

/**
 * Returns the first lines of a failure, indented, for logs that keep only the end of the output.
 */
export function firstLines(message: string): string {
  const beginning = stripVTControlCharacters(message).slice(0, maxCharacters);
  const lines = beginning.split('\n').filter((line) => line.trim() !== '');
  return lines
    .slice(0, maxLines)
    .map((line) => `\n          ${line}`)
    .join('');
}

export async function readOutcome(file: string, startedMs: number, required: Suite[], root: string): Promise<Outcome> {
  const writtenMs = existsSync(file) ? (await stat(file)).mtimeMs : 0;
  if (writtenMs < startedMs)
    return { passed: 0, failed: 0, failures: [], complaints: ['the test runner ended without a report'] };
  const report = JSON.parse(await readFile(file, 'utf8')) as Report;
  return outcomeOf(report, required, root);
}

export function outcomeOf(report: Report, required: Suite[], root: string): Outcome {
  const tests = report.testResults.flatMap((reported) =>
    reported.assertionResults.map((test) => ({ ...test, path: relative(root, reported.name) })),
  );
  const count = (status: string) => tests.filter((test) => test.status === status).length;
  const failed = count('failed');
  const notRun = tests.filter(({ status }) => status !== 'passed' && status !== 'failed');
  const brokenFiles = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  );
  const empty = required.filter(
    ({ under }) => !tests.some(({ path }) => under.some((start) => path.startsWith(start))),
  );
  return {
    passed: count('passed'),
    failed,
    failures: tests
      .filter(({ status }) => status === 'failed')
      .map(({ path, fullName, failureMessages }) => `${path}: ${fullName}${firstLines(failureMessages.join('\n'))}`),
    complaints: [
      ...notRun.map(({ path, fullName, status }) => `${status} tests are not allowed: ${path}: ${fullName}`),
      ...brokenFiles.map(
        ({ name, message }) => `${relative(root, name)}: failed outside its tests${firstLines(message)}`,
      ),
      ...empty.map(({ name }) => `the required suite "${name}" ran no tests`),
    ],
  };
}
