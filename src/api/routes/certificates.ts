/** The release certificate of an allocation. */
import { now } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors.ts';
import { certificateText, signCertificate } from '../../contract/integrity/certificate.ts';
import { allocationRow } from '../../store/allocations.ts';
import { formatCursor } from '../../store/evidence.ts';
import { releaseFact, releaseRecord } from '../../store/integrity/release-record.ts';
import { sealedPlace } from '../../store/integrity/sealed-row.ts';
import { evidenceSigner } from '../../store/integrity/signer.ts';
import { cutBefore } from '../../store/retention.ts';
import type { Handlers } from '../services.ts';

/** About as long as rows wait for their seal. */
const sealedInSeconds = 1;

export const certificateHandlers: Pick<Handlers, 'allocation-certificate'> = {
  async 'allocation-certificate'({ params, person, reply }, { db, clock, key_ring, installation }) {
    const { tenant } = person();
    const allocation = await allocationRow(db, params.id);
    if (!allocation || (tenant !== null && allocation.tenant !== tenant)) throw new ApiProblem('allocation_not_found');
    if (allocation.status !== 'released') throw new ApiProblem('allocation_not_released');
    const released = await releaseFact(db, params.id);
    const cut = released ? null : await cutBefore(db);
    if (cut && cut > allocation.status_since) throw new ApiProblem('evidence_cut');
    const place = released && (await sealedPlace(db, released.layer, released));
    if (!released || !place) throw new ApiProblem('certificate_not_sealed', { retry_after_seconds: sealedInSeconds });
    const key = evidenceSigner(key_ring).current();
    const certificate = signCertificate(
      {
        type: 'slipway.certificate.1',
        installation: installation.installation_id,
        ...(await releaseRecord(db, allocation, released)),
        chain: { partition: released.layer, cursor: formatCursor(released), ...place },
        issued_at: now(clock).toISOString(),
        kid: key.kid,
      },
      key.private_key,
    );
    // The signature is over exact bytes, so they are sent as they are.
    await reply
      .type('application/json; charset=utf-8')
      .header('content-disposition', `attachment; filename="${params.id}.certificate.json"`)
      .send(certificateText(certificate));
    return undefined;
  },
};
