/**
 * Defines a rule's verdict on a node and renders the evidence of many verdicts as one JSON text.
 */
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import type { Transaction } from '../../pg/database.ts';
import type { JudgedNode } from '../../rows/judged.ts';

export interface NodeVerdict {
  /** The caller has locked this row in the transaction. */
  node: JudgedNode;
  to: NodeStatus;
  reason: string;
  /** Evidence for the verdict. If `moments` is set, all nodes of a group share the same data. */
  data: Record<string, unknown>;
  /** Evidence that differs between the nodes of a group. */
  moments?: Record<string, Date | null>;
}

export const evidenceOf = ({ data, moments }: NodeVerdict): Record<string, unknown> => ({ ...data, ...moments });

/** Formats dates. Consecutive dates are mostly within one second, so its text is reused. */
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

/**
 * Renders the evidence of each verdict into a JSON array, because JSON.stringify was the hot spot.
 */
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
