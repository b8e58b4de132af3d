/** Attacks by a web page that a signed-in person opens. */
import { describeAttacks } from './support/attack.ts';
import { crossOriginAttacks } from './web-page/cross-origin.ts';

describeAttacks('web page', crossOriginAttacks);
