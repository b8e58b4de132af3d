/** A rule's verdict on one node, and the evidence of many verdicts as one JSON text. */
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import type { Transaction } from '../../pg/database.ts';
import type { JudgedNode } from '../../rows/judged.ts';

export interface NodeVerdict {
  /** Its row is locked in this transaction. */
  node: JudgedNode;
  to: NodeStatus;
  reason: string;
  /** The evidence for the verdict. With `moments`, it is the same for all nodes of a group. */
  data: Record<string, unknown>;
  /** The evidence of this node alone. */
  moments?: Record<string, Date | null>;
}

export const evidenceOf = ({ data, moments }: NodeVerdict): Record<string, unknown> => ({ ...data, ...moments });

/** Formats dates, and reuses the formatted second, which consecutive moments mostly share. */
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

/** The evidence of each verdict as a JSON array, built as text: serializing was the hot spot. */
export function individualEvidence(verdicts: readonly NodeVerdict[], redact: Transaction['redact']): string {
  const writers = new Map<string, ReturnType<typeof momentWriter>>();
  const each = verdicts.map(({ data, moments }) => {
    if (!moments) return redact.json(JSON.stringify(data));
    let text = '';
    for (const name in moments) {
      const write = writers.get(name) ?? momentWriter();
      writers.set(name, write);
      text += `${text && ','}"${name}":${write(moments[name] ?? null)}`;
    }
    return `{${text}}`;
  });
  return `[${each.join()}]`;
}
