/** The EC2 query protocol: form fields with dotted names in, XML out. */
import type { IncomingMessage } from 'node:http';

export interface Query {
  action: string;
  fields: URLSearchParams;
  region: string;
}

export async function readQuery(request: IncomingMessage): Promise<Query> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const fields = new URLSearchParams(Buffer.concat(parts).toString('utf8'));
  const scope = /Credential=[^/]+\/\d+\/([^/]+)\//.exec(request.headers.authorization ?? '');
  return { action: fields.get('Action') ?? '', fields, region: scope?.[1] ?? 'us-east-1' };
}

/** Reads a numbered list: `InstanceId.1`, `InstanceId.2` … */
export function listOf(fields: URLSearchParams, name: string): string[] {
  const values: string[] = [];
  for (let index = 1; fields.has(`${name}.${index}`); index++) values.push(fields.get(`${name}.${index}`) ?? '');
  return values;
}

/** Reads `Filter.1.Name` with `Filter.1.Value.1` … Only tag filters are supported. */
export function tagFilters(fields: URLSearchParams): [name: string, values: string[]][] {
  const filters: [string, string[]][] = [];
  for (let index = 1; fields.has(`Filter.${index}.Name`); index++) {
    const name = fields.get(`Filter.${index}.Name`) ?? '';
    if (!name.startsWith('tag:')) throw new Error(`this server filters by tags only, not by ${name}`);
    filters.push([name.slice('tag:'.length), listOf(fields, `Filter.${index}.Value`)]);
  }
  return filters;
}

/** Reads the tags that a launch request sets on one kind of resource. */
export function tagsFor(fields: URLSearchParams, kind: string): Record<string, string> {
  const tags: Record<string, string> = {};
  for (let spec = 1; fields.has(`TagSpecification.${spec}.ResourceType`); spec++) {
    if (fields.get(`TagSpecification.${spec}.ResourceType`) !== kind) continue;
    for (let index = 1; fields.has(`TagSpecification.${spec}.Tag.${index}.Key`); index++) {
      const key = fields.get(`TagSpecification.${spec}.Tag.${index}.Key`) ?? '';
      tags[key] = fields.get(`TagSpecification.${spec}.Tag.${index}.Value`) ?? '';
    }
  }
  return tags;
}

type Xml = string | number | boolean | Xml[] | { [name: string]: Xml };

const escapeXml = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** Writes a list as repeated `<item>` elements. */
export function toXml(value: Xml): string {
  if (Array.isArray(value)) return value.map((each) => `<item>${toXml(each)}</item>`).join('');
  if (typeof value === 'object')
    return Object.entries(value)
      .map(([name, inner]) => `<${name}>${toXml(inner)}</${name}>`)
      .join('');
  return escapeXml(String(value));
}

export const responseXml = (action: string, body: Xml): string =>
  `<?xml version="1.0" encoding="UTF-8"?><${action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>00000000-0000-0000-0000-000000000000</requestId>${toXml(body)}</${action}Response>`;

/** An error answer in EC2's format. */
export class Ec2Refusal extends Error {
  readonly code: string;
  readonly status: number;
  constructor(code: string, message: string, status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
  xml(): string {
    return `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>${this.code}</Code><Message>${escapeXml(this.message)}</Message></Error></Errors><RequestID>00000000-0000-0000-0000-000000000000</RequestID></Response>`;
  }
}
