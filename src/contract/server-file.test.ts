/** Tests the server's settings file: its defaults, additions and error messages. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { SettingsError } from '../base/settings/flag-values.ts';
import { parseServerFile, settingsOf, toFileNames } from './server-file.ts';

const example = new URL('../../slipway.yaml', import.meta.url);

test('the example file equals the defaults', () => {
  const { budgets, ...shipped } = parseServerFile(readFileSync(example, 'utf8'), 'slipway.yaml');
  const { budgets: _, ...without } = settingsOf({});
  expect(shipped).toEqual(without);
  expect(budgets.provision_seconds).toBe(720);
});

test('the effective settings have the names of the file, and list the default budgets', () => {
  const shown = toFileNames(settingsOf({}));
  expect(shown).toEqual(parse(readFileSync(example, 'utf8')));
  const text = JSON.stringify(toFileNames(settingsOf({ budgets: { start_seconds: 5 }, brake: { fraction: 0.1 } })));
  expect(parseServerFile(text, 'x')).toMatchObject({
    budgets: { start_seconds: 5, provision_seconds: 720 },
    brake_policy: { fraction: 0.1, min_nodes: 5 },
  });
});

test('a class in the file is added to the built-in ones and overrides the numbers it sets', () => {
  const text = 'runtime_classes: {hermes: {start_seconds: 5}, tiny: {provision_seconds: 9}}';
  expect(parseServerFile(text, 'x').runtime_classes).toEqual({
    hermes: { provision_seconds: 1800, start_seconds: 5 },
    aks: { provision_seconds: 1800 },
    tiny: { provision_seconds: 9 },
  });
});

test('an empty file changes nothing', () => expect(parseServerFile('', 'x')).toEqual(settingsOf({})));

test.for([
  ['brake: {fraction: 2}', /slipway.yaml: \/brake\/fraction/],
  ['brake: {mass_failure_seconds: 3601}', /mass_failure_seconds/],
  ['budget: {}', /slipway.yaml/],
  ['runtime_classes: {hermes: {policy: learned}}', /hermes/],
  ['budgets: {queue_seconds: 0}', /queue_seconds/],
  ['redact: {patterns: ["("]}', /patterns\/0 must be a regular expression/],
  ['redact: {patterns: ["a*"]}', /patterns\/0 must be a regular expression/],
  ['a: [', /is not YAML/],
] as const)('%s is refused, and the message names the field', ([text, message]) => {
  expect(() => parseServerFile(text, 'slipway.yaml')).toThrow(message);
  expect(() => parseServerFile(text, 'slipway.yaml')).toThrow(SettingsError);
});
