/** What an audited fact says beside its summary. Pure. */
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';

export interface AuditFilter {
  actor?: string | undefined;
  action?: string | undefined;
  target_id?: string | undefined;
  code?: string | undefined;
  kind?: string | undefined;
}

const word = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

/** The code by which it was refused; null where it was done. */
export const codeOf = ({ kind, data }: Pick<Evidence, 'kind' | 'data'>): string | null =>
  kind === 'request.denied' || kind === 'action.refused' ? (word(data.code) ?? 'refused') : null;

/** Where the summary does not say it already. */
export function reasonOf({ data, summary }: Pick<Evidence, 'data' | 'summary'>): string | null {
  const reason = word(data.reason);
  return reason !== null && summary.includes(reason) ? null : reason;
}

export const targetOf = ({ data }: Pick<Evidence, 'data'>): string | null =>
  word(data.target_id) ?? word(data.pool) ?? word(data.token_id) ?? word(data.residue_id) ?? word(data.name);

/** The kinds one asks for; what a request served is read elsewhere. */
export const auditKinds = [
  { value: '', label: 'Everything' },
  { value: 'request.denied', label: 'Denied' },
  { value: 'action.refused', label: 'Refused' },
];
