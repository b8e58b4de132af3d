/** A rule's verdict on one node, and its evidence as text for a statement that writes many. */
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import type { Transaction } from '../../pg/database.ts';
import type { JudgedNode } from '../../rows/judged.ts';

export interface NodeVerdict {
  /** Locked in this transaction. */
  node: JudgedNode;
  to: NodeStatus;
  reason: string;
  /** What the verdict rests on; where `moments` are told apart, all that was read alike has the same. */
  data: Record<string, unknown>;
  /** And of this node alone. */
  moments?: Record<string, Date | null>;
}

export const evidenceOf = ({ data, moments }: NodeVerdict): Record<string, unknown> => ({ ...data, ...moments });

/** Moments of machines that fall due together mostly lie in the same few seconds, and spelling out a date takes its time. */
export function momentWriter(): (moment: Date | null) => string {
  let second = Number.NaN;
  let prefix = '';
  return (moment) => {
    if (moment === null) return 'null';
    const ms = moment.getTime();
    const whole = Math.floor(ms / 1000);
    if (whole !== second) {
      second = whole;
      prefix = moment.toISOString().slice(0, -4);
    }
    return `"${prefix}${String(ms - whole * 1000).padStart(3, '0')}Z"`;
  };
}

/** What each adds to the evidence of its kind, written out: taking objects with moments apart took longest of all here. */
export function ownEvidence(verdicts: readonly NodeVerdict[], redact: Transaction['redact']): string {
  const writers = new Map<string, ReturnType<typeof momentWriter>>();
  const each = verdicts.map(({ data, moments }) => {
    if (!moments) return redact.json(JSON.stringify(data));
    let text = '';
    for (const name in moments) {
      const written = writers.get(name) ?? momentWriter();
      writers.set(name, written);
      text += `${text && ','}"${name}":${written(moments[name] ?? null)}`;
    }
    return `{${text}}`;
  });
  return `[${each.join()}]`;
}
