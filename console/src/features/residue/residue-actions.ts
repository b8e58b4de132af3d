/** The actions on residue. */

import type { Residue } from '../../../../src/contract/supervision/residue.ts';
import { newKey } from '../../api/client.ts';
import { actOnResidue, type ResidueActionName } from '../../api/queries/residue.ts';
import { toSentence } from '../../ui/text.ts';
import { type Action, awaitWithNotice, dryRun } from '../actions/action.ts';
import { residueName } from './words.ts';

interface ResidueActionTexts {
  label: string;
  description: string;
  notice: string;
}

export const residueActions: Record<ResidueActionName, ResidueActionTexts> = {
  verify: { label: 'Verify', description: 'Check now whether the resource still exists.', notice: 'is being checked' },
  adopt: {
    label: 'Adopt',
    description: 'You become the owner of the resource. It no longer counts as residue.',
    notice: 'is now yours',
  },
  delete: {
    label: 'Delete',
    description: 'Destroy the resources with our tags, and prove that they are gone. You cannot undo this.',
    notice: 'is being destroyed',
  },
};

export const residueActionNames = Object.keys(residueActions) as ResidueActionName[];

export const residueAction = (residue: Residue, action: ResidueActionName): Action => {
  const { label, description, notice } = residueActions[action];
  return {
    title: `${label} · ${residueName(residue)}`,
    description,
    button: label,
    destructive: action === 'delete',
    needsReason: true,
    predict: async () => {
      const { predicts } = await actOnResidue(residue.residue_id, action, dryRun, newKey());
      return { text: toSentence(predicts.says) };
    },
    run: ({ reason = '' }, key) =>
      awaitWithNotice(`${residueName(residue)} ${notice}`, actOnResidue(residue.residue_id, action, { reason }, key)),
  };
};
