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
  /** Evidence for the verdict. Verdicts share a group only if this is equal; see `moments`. */
  data: Record<string, unknown>;
  /** Evidence that may differ between the nodes of a group. */
  moments?: Record<string, Date | null>;
}

export const evidenceOf = ({ data, moments }: NodeVerdict): Record<string, unknown> => ({ ...data, ...moments });

/** Renders as a JSON array, for each verdict, the evidence that is not sent once for its group. */
export const renderIndividualEvidence = (verdicts: readonly NodeVerdict[], redact: Transaction['redact']): string =>
  redact.json(JSON.stringify(verdicts.map(({ data, moments }) => moments ?? data)));
