/** Parses real cloud-init output; see fixtures/README.md. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readBootReport } from './read.ts';

const fixture = (version: string, what: string) =>
  readFileSync(new URL(`fixtures/${version}/${what}.txt`, import.meta.url), 'utf8');

const modulesOf = (text: string) =>
  readBootReport(text)
    .stages.filter(({ name }) => name.includes('config-'))
    .map(({ name, parent }) => `${parent}/${name}`)
    .sort();

describe.each(['22.4.2', '26.2'])('cloud-init %s', (version) => {
  test('show: a module has one name, whether it ran, failed or had run before', () => {
    const show = fixture(version, 'show');
    const [first = ''] = show.split('-- Boot Record 02 --');
    const modules = modulesOf(first);
    expect(modules).toContain('modules-config/config-timezone');
    expect(modules).toContain('modules-final/config-scripts_user');
    expect(modules).toHaveLength(13);
    expect(modulesOf(show)).toEqual(modules);
    expect(modulesOf(fixture(version, 'blame'))).toEqual(modules);
  });

  test('show: no stage name contains its outcome or duration', () => {
    for (const { name } of readBootReport(fixture(version, 'show')).stages)
      expect(name).not.toMatch(/ ran| frequency | took |duration/);
  });

  test('dump: has the same stages as blame, plus start times', () => {
    const { stages } = readBootReport(fixture(version, 'dump'));
    const parts = stages.filter(({ parent }) => parent !== undefined);
    expect(parts.map(({ starts_seconds: _, ...stage }) => stage)).toEqual(
      expect.arrayContaining(readBootReport(fixture(version, 'blame')).stages),
    );
    const whole = stages.filter(({ parent }) => parent === undefined).map(({ name }) => name);
    expect(whole).toEqual(['init-local', 'init-network', 'modules-config', 'modules-final']);
    expect(stages.every(({ starts_seconds }) => starts_seconds !== undefined && starts_seconds < 10)).toBe(true);
    const shown = readBootReport(fixture(version, 'show')).stages.find(({ name }) => name === 'config-final_message');
    expect(stages).toContainEqual({ ...shown, starts_seconds: expect.closeTo(shown?.starts_seconds ?? 0, 2) });
  });

  test('boot: has the kernel and the time before cloud-init', () => {
    const { stages } = readBootReport(fixture(version, 'boot'));
    expect(stages.map(({ name }) => name)).toEqual(['kernel', 'before-cloud-init', 'cloud-init-start']);
    expect(stages[0]).toEqual({ name: 'kernel', starts_seconds: 0, seconds: expect.closeTo(2.153, 2) });
    expect(stages[1]).toMatchObject({ starts_seconds: stages[0]?.seconds, seconds: expect.closeTo(2.748, 2) });
  });
});

test('boot: counts from the start of a container', () => {
  expect(readBootReport(fixture('26.2', 'boot-container')).stages).toEqual([
    { name: 'before-cloud-init', starts_seconds: 0, seconds: 2.747 },
    { name: 'cloud-init-start', starts_seconds: 2.747, seconds: 3.498 },
  ]);
});

test('boot: refuses a report of an unsupported machine and names an alternative', () => {
  expect(() => readBootReport(fixture('22.4.2', 'boot-unsupported'))).toThrow(/analyze show/);
});
