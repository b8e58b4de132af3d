/** Defines colours by meaning. No information is in a colour alone, so colours can be off. */
import { printableText } from '../../../base/redaction/printable.ts';
import type {
  AllocationStatus,
  NodeStatus,
  OperationStatus,
  ShownStepStatus,
} from '../../../lifecycle/model/states.ts';

const codes = { good: '32', busy: '36', warn: '33', bad: '31', quiet: '2', strong: '1' } as const;

export type Tone = keyof typeof codes;
export type Paint = (tone: Tone | undefined, text: string) => string;

export const plain: Paint = (_tone, text) => text;
export const coloured: Paint = (tone, text) => (tone && text !== '' ? `\x1b[${codes[tone]}m${text}\x1b[0m` : text);

/** Matches only the sequences of `coloured`. */
const ownSequence = new RegExp(`(\x1b\\[(?:0|${Object.values(codes).join('|')})m)`);

/** Removes every control character except our own colours. */
export function safeLine(line: string, paint: Paint): string {
  if (paint === plain) return printableText(line);
  // Every second part is one of our sequences.
  return line
    .split(ownSequence)
    .map((part, i) => (i % 2 === 1 ? part : printableText(part)))
    .join('');
}

export const nodeTones: Record<NodeStatus, Tone> = {
  provisioning: 'busy',
  starting: 'busy',
  ready: 'good',
  degraded: 'warn',
  offline: 'warn',
  failed: 'bad',
  draining: 'busy',
  cleaning: 'busy',
  quarantined: 'bad',
  retired: 'quiet',
};

export const allocationTones: Record<AllocationStatus, Tone> = {
  requested: 'busy',
  provisioning: 'busy',
  active: 'good',
  releasing: 'busy',
  released: 'quiet',
  failed: 'bad',
  release_failed: 'bad',
};

export const operationTones: Record<OperationStatus, Tone> = {
  queued: 'quiet',
  running: 'busy',
  succeeded: 'good',
  failed: 'bad',
  cancelling: 'warn',
  cancelled: 'quiet',
};

const stepTones: Record<ShownStepStatus, Tone> = {
  pending: 'quiet',
  running: 'busy',
  waiting: 'warn',
  done: 'good',
  skipped: 'quiet',
  failed: 'bad',
  cancelled: 'quiet',
};

const stepMarks: Record<ShownStepStatus, string> = {
  pending: '○',
  running: '◐',
  waiting: '◌',
  done: '✔',
  skipped: '–',
  failed: '✖',
  cancelled: '–',
};

/** A newer server may send a status that this version does not have. */
export const stepTone = (status: ShownStepStatus): Tone => stepTones[status] ?? 'quiet';
export const stepMark = (status: ShownStepStatus): string => stepMarks[status] ?? '?';
