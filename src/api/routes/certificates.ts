/** Issues the release certificate of an allocation. */
import { now } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { certificateText, signCertificate } from '../../contract/evidence/integrity/certificate.ts';
import type { RowText } from '../../contract/evidence/integrity/row-hash.ts';
import { canSee } from '../../lifecycle/visibility.ts';
import { formatCursor } from '../../store/evidence/commit-order.ts';
import {
  areProofsCut,
  buildReleaseRecord,
  findChangedField,
  type ReleaseFacts,
  readReleaseFacts,
} from '../../store/history/release-record.ts';
import { readNewestCut } from '../../store/history/retention.ts';
import { checkSeals, type SealedPlace } from '../../store/integrity/sealed-rows.ts';
import { createEvidenceSigner, type EvidenceSigner } from '../../store/integrity/signer.ts';
import type { Database } from '../../store/pg/database.ts';
import { allocationRow } from '../../store/rows/allocations.ts';
import { notFoundProblem } from '../http/replies/gone.ts';
import type { Handlers } from '../services.ts';

/** Rows are usually sealed within this time. */
const sealRetrySeconds = 1;

const notSealedProblem = () => new ApiProblem('certificate_not_sealed', { retry_after_seconds: sealRetrySeconds });

/**
 * Compares every fact behind the certificate with its seal. Returns the place of the release in the
 * chain of seals.
 */
async function checkFacts(db: Database, signer: EvidenceSigner, facts: ReleaseFacts): Promise<SealedPlace> {
  const rows = [facts.released, ...facts.changes, ...facts.proofs, ...facts.machines];
  const checks = await checkSeals(db, signer, rows);
  for (const [index, check] of checks.entries()) {
    const row = rows[index] as RowText;
    if (check.state === 'changed')
      throw new ApiProblem(
        'certificate_evidence_changed',
        `The evidence row ${formatCursor(row)} of layer ${row.layer} differs from its seal.`,
      );
    if (check.state === 'key_missing')
      throw new ApiProblem('certificate_key_missing', `The key file does not hold ${check.kid}.`);
  }
  const [first] = checks;
  if (first?.state !== 'intact' || checks.some(({ state }) => state === 'unsealed')) throw notSealedProblem();
  return first.place;
}

export const certificateHandlers: Pick<Handlers, 'allocation-certificate'> = {
  async 'allocation-certificate'({ params, person, reply }, { db, clock, key_ring, installation }) {
    const allocation = await allocationRow(db, params.id);
    const { visibility } = person();
    if (!allocation || !canSee(visibility, allocation.tenant))
      throw await notFoundProblem('allocation', params.id, visibility, { db });
    if (allocation.status !== 'released') throw new ApiProblem('allocation_not_released');
    const facts = await readReleaseFacts(db, params.id);
    const cut = facts ? null : await readNewestCut(db);
    if (cut && cut > allocation.status_since) throw new ApiProblem('evidence_cut');
    if (!facts) throw notSealedProblem();
    const signer = createEvidenceSigner(key_ring);
    const { released } = facts;
    const place = await checkFacts(db, signer, facts);
    if (await areProofsCut(db, allocation, facts))
      throw new ApiProblem(
        'evidence_cut',
        'Retention has dropped evidence from the time of this release, possibly proofs. A certificate can no longer be issued.',
      );
    const changed = findChangedField(allocation, facts.changes);
    if (changed)
      throw new ApiProblem(
        'certificate_evidence_changed',
        `The field ${changed} of the allocation differs from its evidence.`,
      );
    const key = signer.current();
    const certificate = signCertificate(
      {
        type: 'slipway.certificate.1',
        installation: installation.installation_id,
        ...(await buildReleaseRecord(db, allocation, facts)),
        chain: { partition: released.layer, cursor: formatCursor(released), ...place },
        issued_at: now(clock).toISOString(),
        kid: key.kid,
      },
      key.private_key,
    );
    // The signature covers exact bytes, so the text must not be serialized again.
    await reply
      .type('application/json; charset=utf-8')
      .header('content-disposition', `attachment; filename="${params.id}.certificate.json"`)
      .send(certificateText(certificate));
    return undefined;
  },
};
