/** Export records as syslog messages (RFC 5424), one line each. */
import { readCheckpoint } from './checkpoint.ts';
import type { ExportRecord } from './export-record.ts';
import { isoOf } from './row-time.ts';
import { severityOf } from './severity.ts';

/** RFC 5424 calls facility 13 "log audit". */
const facility = 13;
/** The enterprise number that RFC 5612 reserves for documentation. */
const structuredId = 'slipway@32473';

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced.
const toOneLine = (text: string): string => text.replaceAll(/[\u0000-\u001f\u007f\u0085\u2028\u2029]+/g, ' ');

/** RFC 5424, 6.3.3: `"`, `\` and `]` are escaped. */
export const parameterValue = (text: string): string => toOneLine(text).replaceAll(/["\\\]]/g, '\\$&');

/** Header fields are printable ASCII without blanks. */
export const headerField = (text: string, maxLength: number): string =>
  text.replaceAll(/[^\x21-\x7e]/g, '_').slice(0, maxLength) || '-';

const renderStructuredData = (fields: Record<string, string | number | null | undefined>): string =>
  `[${[
    structuredId,
    ...Object.entries(fields)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => `${name}="${parameterValue(String(value))}"`),
  ].join(' ')}]`;

const renderMessage = (
  severity: number,
  at: string,
  host: string,
  id: string,
  fields: Parameters<typeof renderStructuredData>[0],
  text: string,
) =>
  `<${facility * 8 + severity}>1 ${at} ${headerField(host, 255)} slipway - ${headerField(id, 32)} ${renderStructuredData(fields)} ${toOneLine(text)}`;

const timestampOrNil = (iso: string): string => (/^\d{4}-/.test(iso) ? iso : '-');

export function syslogLine(record: ExportRecord, host: string): string {
  if (record.type === 'checkpoint') {
    const body = readCheckpoint(record.body);
    const { position, hash, signature } = record;
    return renderMessage(
      6,
      timestampOrNil(body?.at ?? ''),
      host,
      'evidence.checkpoint',
      { type: 'checkpoint', position, hash, signature, kid: body?.kid, through: body?.through },
      `checkpoint ${position}`,
    );
  }
  const { row, number, checkpoint, hash } = record;
  return renderMessage(
    severityOf(row.kind).syslog,
    timestampOrNil(isoOf(row.at)),
    host,
    row.kind,
    {
      type: 'row',
      partition: row.layer,
      cursor: `${row.xid}-${row.seq}`,
      number,
      checkpoint,
      hash,
      origin: row.origin,
      node_id: row.node_id,
      node_instance_id: row.node_instance_id,
      correlation_id: row.correlation_id,
      allocation_id: row.allocation_id,
      workflow_id: row.workflow_id,
      actor: row.actor,
      data: row.data,
    },
    row.summary,
  );
}
