/** Exports sealed evidence to a SIEM, in pages. */
import { moment } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { EvidenceExportQuery } from '../../contract/evidence/evidence-export.ts';
import { parseCursor, startCursor } from '../../store/evidence/commit-order.ts';
import {
  type ExportPlace,
  exportPage,
  findPlaceAfter,
  findPlaceSince,
  formatPlace,
  parsePlace,
} from '../../store/integrity/export-page.ts';
import type { Database } from '../../store/pg/database.ts';
import type { Handlers } from '../services.ts';

const pageRows = 500;

async function findPlace(db: Database, query: EvidenceExportQuery): Promise<ExportPlace> {
  if (query.cursor !== undefined) {
    const place = parsePlace(query.cursor);
    if (!place) throw new ApiProblem('invalid_cursor');
    return place;
  }
  if (query.since_cursor !== undefined) {
    const cursor = parseCursor(query.since_cursor);
    if (!cursor) throw new ApiProblem('invalid_cursor');
    return findPlaceAfter(db, cursor);
  }
  if (query.since !== undefined) return findPlaceSince(db, moment(Date.parse(query.since)));
  return { position: 1, after: startCursor };
}

export const evidenceExportHandlers: Pick<Handlers, 'evidence-export'> = {
  async 'evidence-export'({ query }, { db }) {
    const page = await exportPage(db, await findPlace(db, query ?? {}), query?.limit ?? pageRows);
    const resume_cursor = formatPlace(page.next);
    return { items: page.records, next_cursor: page.at_end ? null : resume_cursor, resume_cursor };
  },
};
