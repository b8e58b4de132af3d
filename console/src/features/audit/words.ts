/** Fields of an audited fact that its summary does not show. Pure. */
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';

export interface AuditFilter {
  actor?: string | undefined;
  action?: string | undefined;
  target_id?: string | undefined;
  code?: string | undefined;
  kind?: string | undefined;
}

const textOf = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

/** The error code of a refusal, or null if the action was carried out. */
export const codeOf = ({ kind, data }: Pick<Evidence, 'kind' | 'data'>): string | null =>
  kind === 'request.denied' || kind === 'action.refused' ? (textOf(data.code) ?? 'refused') : null;

/** The reason, or null if the summary already contains it. */
export function reasonOf({ data, summary }: Pick<Evidence, 'data' | 'summary'>): string | null {
  const reason = textOf(data.reason);
  return reason !== null && summary.includes(reason) ? null : reason;
}

export const targetOf = ({ data }: Pick<Evidence, 'data'>): string | null =>
  textOf(data.target_id) ?? textOf(data.pool) ?? textOf(data.token_id) ?? textOf(data.residue_id) ?? textOf(data.name);

/** The kinds to filter by. */
export const auditKinds = [
  { value: '', label: 'Everything' },
  { value: 'request.denied', label: 'Denied' },
  { value: 'action.refused', label: 'Refused' },
];
