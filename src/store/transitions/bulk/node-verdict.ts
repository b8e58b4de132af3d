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

/** The evidence that a verdict does not share with its group, of each verdict, as a JSON array. */
export const renderIndividualEvidence = (verdicts: readonly NodeVerdict[], redact: Transaction['redact']): string =>
  redact.json(JSON.stringify(verdicts.map(({ data, moments }) => moments ?? data)));
