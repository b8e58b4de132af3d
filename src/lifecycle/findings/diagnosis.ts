/**
 * Finds causes of failed boots in console and log lines. A diagnosis only explains a failure; it
 * never changes a status.
 */

export interface CrashPattern {
  /** A short name that must not change, because evidence, metrics and docs use it. */
  code: string;
  pattern: RegExp;
  says: string;
  /** Whether the boot can no longer succeed, so that waiting does not help. */
  certain: boolean;
}

/** The first match wins, so causes are listed before their consequences. */
export const crashPatterns: readonly CrashPattern[] = [
  { code: 'kernel_panic', pattern: /Kernel panic - not syncing/, says: 'the kernel panicked', certain: true },
  {
    code: 'no_root_device',
    pattern: /(VFS: Unable to mount root fs|ALERT!\s+\S+ does not exist|Gave up waiting for root)/,
    says: 'the root disk was not found',
    certain: true,
  },
  {
    code: 'out_of_memory',
    pattern: /(Out of memory: Kill(ed)? process|oom-kill:|Memory cgroup out of memory)/,
    says: 'the machine ran out of memory',
    certain: false,
  },
  { code: 'disk_full', pattern: /No space left on device/, says: 'a disk is full', certain: false },
  {
    code: 'emergency_mode',
    pattern: /You are in emergency mode/,
    says: 'it booted into emergency mode',
    certain: true,
  },
  {
    code: 'agent_not_started',
    pattern: /slipway: boot failed: /,
    says: 'the machine could not start its agent',
    certain: true,
  },
  {
    code: 'agent_ended',
    pattern: /slipway: agent ended: (?!stopped|instance_fenced)/,
    says: 'the agent gave up',
    certain: true,
  },
  {
    code: 'cloud_init_failed',
    pattern: /cloud-init\[\d+\]:.*(Failed to run module|Traceback|failed to start)/i,
    says: 'cloud-init failed',
    certain: false,
  },
  {
    code: 'image_pull_failed',
    pattern: /(ImagePullBackOff|ErrImagePull|manifest unknown|pull access denied)/,
    says: 'the image could not be pulled',
    certain: false,
  },
  {
    code: 'name_resolution_failed',
    pattern: /(Temporary failure in name resolution|Could not resolve host)/,
    says: 'names do not resolve on the machine',
    certain: false,
  },
  {
    code: 'segmentation_fault',
    pattern: /(segfault at|Segmentation fault)/,
    says: 'a process crashed',
    certain: false,
  },
];

export interface Diagnosis {
  code: string;
  says: string;
  certain: boolean;
  line: string;
}

const maxLineLength = 400;

/** The first matching pattern, with its line. */
export function diagnose(text: string): Diagnosis | undefined {
  for (const { code, pattern, says, certain } of crashPatterns) {
    const line = text.split('\n').find((each) => pattern.test(each));
    if (line !== undefined) return { code, says, certain, line: line.trim().slice(0, maxLineLength) };
  }
  return undefined;
}
