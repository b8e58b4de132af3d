/** Export records in ArcSight's Common Event Format (CEF:0). */
import { readCheckpoint } from './checkpoint.ts';
import type { ExportRecord } from './export-record.ts';
import { isoOf } from './row-time.ts';
import { severityOf } from './severity.ts';

const maxNameLength = 512;

/** A header field: no line break, and `\` and `|` escaped. */
export const cefHeader = (text: string): string =>
  text
    .replaceAll(/[\r\n]+/g, ' ')
    .replaceAll('\\', '\\\\')
    .replaceAll('|', '\\|');

/** An extension value: `\` and `=` escaped, line breaks as `\n` and `\r`. */
export const cefValue = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('=', '\\=').replaceAll('\n', '\\n').replaceAll('\r', '\\r');

const renderExtension = (fields: Record<string, string | number | null | undefined>): string =>
  Object.entries(fields)
    .filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([key, value]) => `${key}=${cefValue(String(value))}`)
    .join(' ');

const labelFields = (fields: [key: string, label: string, value: string | number | null][]) =>
  Object.fromEntries(
    fields.flatMap(([key, label, value]) =>
      value === null
        ? []
        : [
            [key, value],
            [`${key}Label`, label],
          ],
    ),
  );

const renderLine = (
  version: string,
  id: string,
  name: string,
  severity: number,
  fields: Parameters<typeof renderExtension>[0],
) =>
  `CEF:0|Slipway|Slipway|${cefHeader(version)}|${cefHeader(id)}|${cefHeader(name.slice(0, maxNameLength))}|${severity}|${renderExtension(fields)}`;

export function cefLine(record: ExportRecord, version: string): string {
  if (record.type === 'checkpoint') {
    const body = readCheckpoint(record.body);
    return renderLine(version, 'evidence.checkpoint', `checkpoint ${record.position}`, 1, {
      rt: body ? Date.parse(body.at) : null,
      externalId: `checkpoint-${record.position}`,
      cat: 'checkpoint',
      ...labelFields([
        ['cn1', 'position', record.position],
        ['cs1', 'hash', record.hash],
        ['cs2', 'signature', record.signature],
        ['cs3', 'kid', body?.kid ?? null],
        ['cs4', 'through', body?.through ?? null],
      ]),
    });
  }
  const { row, number, checkpoint, hash } = record;
  const actor = row.actor === null ? null : (JSON.parse(row.actor) as { id?: string; name?: string });
  return renderLine(version, row.kind, row.summary, severityOf(row.kind).cef, {
    rt: Date.parse(isoOf(row.at)) || null,
    externalId: `${row.xid}-${row.seq}`,
    cat: row.layer,
    suid: actor?.id,
    suser: actor?.name,
    ...labelFields([
      ['cn1', 'number', number],
      ['cn2', 'checkpoint', checkpoint],
      ['cs1', 'hash', hash],
      ['cs2', 'node_id', row.node_id],
      ['cs3', 'node_instance_id', row.node_instance_id],
      ['cs4', 'allocation_id', row.allocation_id],
      ['cs5', 'workflow_id', row.workflow_id],
      ['cs6', 'correlation_id', row.correlation_id],
    ]),
    msg: row.summary,
    slipwayOrigin: row.origin,
    slipwayData: row.data,
  });
}
