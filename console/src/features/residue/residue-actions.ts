/** The actions on residue. */

import type { Residue } from '../../../../src/contract/supervision/residue.ts';
import { newKey } from '../../api/client.ts';
import { actOnResidue, type ResidueActionName } from '../../api/queries/residue.ts';
import { toSentence } from '../../ui/text.ts';
import { type Action, dryRun, thenNotify } from '../actions/action.ts';
import { residueName } from './words.ts';

interface ResidueActionTexts {
  label: string;
  says: string;
  done: string;
}

/** As in the CLI. */
export const residueActions: Record<ResidueActionName, ResidueActionTexts> = {
  verify: { label: 'Verify', says: 'Check now whether it still exists.', done: 'is being checked' },
  adopt: {
    label: 'Adopt',
    says: 'You become its owner. It no longer counts as residue.',
    done: 'is now yours',
  },
  delete: {
    label: 'Delete',
    says: 'Destroy the resources with our tags, with proof. You cannot undo this.',
    done: 'is being destroyed',
  },
};

export const residueActionNames = Object.keys(residueActions) as ResidueActionName[];

export const residueAction = (residue: Residue, action: ResidueActionName): Action => {
  const { label, says, done } = residueActions[action];
  return {
    title: `${label} · ${residueName(residue)}`,
    says,
    button: label,
    destructive: action === 'delete',
    needsReason: true,
    predict: async () => {
      const { predicts } = await actOnResidue(residue.residue_id, action, dryRun, newKey());
      return { says: toSentence(predicts.says) };
    },
    run: ({ reason = '' }, key) =>
      thenNotify(`${residueName(residue)} ${done}`, actOnResidue(residue.residue_id, action, { reason }, key)),
  };
};
