import { describe, expect, test } from 'vitest';
import { crashPatterns, diagnose } from './diagnosis.ts';

/** Real console and log lines, by code. */
const lines: [code: string, line: string][] = [
  ['kernel_panic', '[    1.204518] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)'],
  ['no_root_device', '[    1.204400] VFS: Unable to mount root fs via NFS, trying floppy.'],
  ['no_root_device', 'ALERT!  UUID=7f3c-11 does not exist.  Dropping to a shell!'],
  ['no_root_device', 'Gave up waiting for root file system device.  Common problems:'],
  ['out_of_memory', '[  512.1] Out of memory: Killed process 812 (node) total-vm:9120kB'],
  ['out_of_memory', 'Out of memory: Kill process 812 (node) score 905 or sacrifice child'],
  ['out_of_memory', 'oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)'],
  ['out_of_memory', 'Memory cgroup out of memory: something died'],
  ['disk_full', 'tar: ./layer.tar: Cannot write: No space left on device'],
  ['emergency_mode', 'You are in emergency mode. After logging in, type "journalctl -xb"'],
  ['agent_not_started', 'cloud-init[812]: slipway: boot failed: node_missing: there is no Node.js on this machine'],
  ['agent_ended', '[   31.2] sh[901]: slipway: agent ended: setup_failed: setup exited with code 3'],
  ['cloud_init_failed', '[ 21.3] cloud-init[1047]: 2026-01-01 - util.py[WARNING]: Failed to run module scripts_user'],
  ['cloud_init_failed', 'cloud-init[9]: Traceback (most recent call last):'],
  ['cloud_init_failed', 'CLOUD-INIT[12]: the agent FAILED TO START'],
  ['image_pull_failed', 'Warning  Failed  kubelet  Error: ImagePullBackOff'],
  ['image_pull_failed', 'Error: ErrImagePull'],
  ['image_pull_failed', 'manifest for app:1 not found: manifest unknown'],
  ['image_pull_failed', 'pull access denied for app, repository does not exist'],
  ['name_resolution_failed', 'getaddrinfo: Temporary failure in name resolution'],
  ['name_resolution_failed', 'curl: (6) Could not resolve host: slipway.example'],
  ['segmentation_fault', 'agent[77]: segfault at 0 ip 00007f sp 00007f error 4'],
  ['segmentation_fault', 'start.sh: line 3:    12 Segmentation fault      (core dumped)'],
];

describe('a line in the console of a failed boot', () => {
  test.for(lines)('is diagnosed as %s: %s', ([code, line]) => {
    expect(diagnose(`all is well\n${line}\nand on it goes`)).toMatchObject({ code, line });
  });

  test('is tested for every pattern', () => {
    expect(crashPatterns.map((sign) => sign.code).filter((code) => !lines.some(([each]) => each === code))).toEqual([]);
  });
});

test('describes the cause for each pattern, and whether it is certain', () => {
  const described = Object.fromEntries(
    lines.map(([code, line]) => {
      const { says, certain } = diagnose(line) ?? {};
      return [code, `${says}${certain ? ', for certain' : ''}`];
    }),
  );
  expect(described).toEqual({
    kernel_panic: 'the kernel panicked, for certain',
    no_root_device: 'the root disk was not found, for certain',
    out_of_memory: 'the machine ran out of memory',
    disk_full: 'a disk is full',
    emergency_mode: 'it booted into emergency mode, for certain',
    agent_not_started: 'the machine could not start its agent, for certain',
    agent_ended: 'the agent gave up, for certain',
    cloud_init_failed: 'cloud-init failed',
    image_pull_failed: 'the image could not be pulled',
    name_resolution_failed: 'names do not resolve on the machine',
    segmentation_fault: 'a process crashed',
  });
});

test.for([
  '',
  'Reached target Multi-User System',
  'cloud-init[1047]: Cloud-init v. 25.1 finished',
  'cloud-init[x]: Failed to run module scripts_user',
  'sshd failed to start',
  'ALERT! the backup of yesterday does not exist',
  'ALERT! does not exist',
  'Out of memory is what nobody wants to be',
])('finds nothing in "%s"', (text) => {
  expect(diagnose(text)).toBeUndefined();
});

test('reports the cause rather than its consequences', () => {
  const text = ['start.sh: Segmentation fault', 'tar: No space left on device', 'systemd: stopping'].join('\n');
  expect(diagnose(text)).toMatchObject({ code: 'disk_full', line: 'tar: No space left on device' });
});

test('keeps the first matching line, trimmed and bounded', () => {
  const first = '  write: No space left on device\r\nlater: No space left on device';
  expect(diagnose(first)?.line).toBe('write: No space left on device');
  const long = `No space left on device ${'x'.repeat(1000)}`;
  expect(diagnose(long)?.line).toBe(long.slice(0, 400));
});
