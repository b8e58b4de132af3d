import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { firstLines, outcomeOf, requiredSuites } from './suites.ts';

const required = [
  { name: 'unit', under: ['src/'] },
  { name: 'browser', under: ['test/browser/'] },
];

const file = (name: string, statuses: string[], status = 'passed', message = '') => ({
  name: `/clone/${name}`,
  status,
  message,
  assertionResults: statuses.map((status, i) => ({
    ...{ status, fullName: `test ${i}` },
    failureMessages: status === 'failed' ? [`Error: ${i} is wrong\n    at …`] : [],
  })),
});

const outcome = (...testResults: ReturnType<typeof file>[]) =>
  outcomeOf({ success: true, testResults }, required, '/clone');

const unindented = (text: string) => text.split('\n').map((line) => line.trim());

test('has no complaints if every required suite passed', () => {
  const bothFiles = outcome(file('src/a.test.ts', ['passed', 'passed']), file('test/browser/b.test.ts', ['passed']));
  expect(bothFiles).toEqual({ passed: 3, failed: 0, failures: [], complaints: [] });
});

test('complains about a required suite without tests', () => {
  expect(outcome(file('src/a.test.ts', ['passed'])).complaints).toEqual(['the required suite "browser" ran no tests']);
});

test.for(['skipped', 'pending', 'todo'])('complains about a %s test by name', (status) => {
  const run = outcome(file('src/a.test.ts', ['passed', status]), file('test/browser/b.test.ts', ['passed']));
  expect(run.passed).toBe(2);
  expect(run.complaints).toEqual([expect.stringContaining('src/a.test.ts: test 1')]);
});

test('names a failed test, with the first lines of its message', () => {
  const run = outcome(
    file('src/b.test.ts', ['passed', 'failed'], 'failed'),
    file('test/browser/b.test.ts', ['passed']),
  );
  expect(run.failed).toBe(1);
  expect(run.failures.map(unindented)).toEqual([['src/b.test.ts: test 1', 'Error: 1 is wrong', 'at …']]);
  expect(run.complaints).toEqual([]);
});

test('complains about a file that failed outside its tests, with the first lines of its message', () => {
  const run = outcome(
    file('src/a.test.ts', [], 'failed', 'Cannot find module x\nat …'),
    file('src/b.test.ts', ['failed'], 'failed'),
    file('src/c.test.ts', [], 'failed'),
    file('test/browser/b.test.ts', ['passed']),
  );
  expect(run.complaints.map(unindented)).toEqual([
    ['src/a.test.ts: failed outside its tests', 'Cannot find module x', 'at …'],
    ['src/c.test.ts: failed outside its tests'],
  ]);
});

test('keeps only the first lines of a long message, indented and without colours', () => {
  const lines = Array.from({ length: 50 }, (_, i) => `\u001b[31mline ${i}\u001b[39m`);
  expect(firstLines(lines.join('\n'))).toMatch(/^(\n +line [0-5]){6}$/);
  expect(unindented(firstLines('x'.repeat(5000)))[1]).toHaveLength(600);
  expect(firstLines('')).toBe('');
});

test('requires every suite in a whole clone', () => {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const places = [
    ...[
      'unit',
      'tidy',
      'api',
      'operations',
      'properties',
      'scenarios',
      'attacks',
      'chaos',
      'packages',
      'outsiders',
      'browser',
    ],
  ];
  expect(requiredSuites(root).map(({ name }) => name)).toEqual(places);
});
