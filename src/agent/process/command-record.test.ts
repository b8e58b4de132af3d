import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { virtualClock } from '../../base/virtual-clock.ts';
import { type CommandRecord, commandRecords } from './command-record.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'slipway-record-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const record: CommandRecord = {
  run: '01234567-89ab-4cde-8f01-23456789abcd',
  group: null,
  shim: { pid: 1, start: '1' },
  boot_id: 'boot',
  node_instance_id: null,
  owner: 'owner',
  command_digest: 'digest',
  is_ready: false,
  is_over: false,
};

test('a change that the disk refuses counts at once and is stored later', async () => {
  const clock = virtualClock();
  const failures: unknown[] = [];
  const records = commandRecords(dir, clock, (error) => failures.push(error));
  records.write(record);
  // As on a full disk, the new file cannot be created: a directory has its name.
  const obstacle = join(dir, 'command.json.new');
  mkdirSync(obstacle);
  records.update(record.run, { is_ready: true });
  records.markOver();
  expect(records.read()).toMatchObject({ is_ready: true, is_over: true });
  expect(commandRecords(dir).read()).toEqual(record);
  expect(failures).toHaveLength(1);
  rmSync(obstacle, { recursive: true });
  await clock.advance(10_000);
  expect(commandRecords(dir).read()).toMatchObject({ is_ready: true, is_over: true });
});
