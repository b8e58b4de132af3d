/** Fields of an audited fact that its summary does not show. Pure. */
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';

export interface AuditFilter {
  actor?: string | undefined;
  action?: string | undefined;
  target_id?: string | undefined;
  code?: string | undefined;
  kind?: string | undefined;
}

const word = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

/** The error code of a refusal; null if the action was done. */
export const codeOf = ({ kind, data }: Pick<Evidence, 'kind' | 'data'>): string | null =>
  kind === 'request.denied' || kind === 'action.refused' ? (word(data.code) ?? 'refused') : null;

/** Null if the summary already contains it. */
export function reasonOf({ data, summary }: Pick<Evidence, 'data' | 'summary'>): string | null {
  const reason = word(data.reason);
  return reason !== null && summary.includes(reason) ? null : reason;
}

export const targetOf = ({ data }: Pick<Evidence, 'data'>): string | null =>
  word(data.target_id) ?? word(data.pool) ?? word(data.token_id) ?? word(data.residue_id) ?? word(data.name);

/** The kinds to filter by. */
export const auditKinds = [
  { value: '', label: 'Everything' },
  { value: 'request.denied', label: 'Denied' },
  { value: 'action.refused', label: 'Refused' },
];
