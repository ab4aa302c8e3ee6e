/* tensor/weights/other_forms.h - recognise folders and files that hold a model in an
 * unsupported form. */
#ifndef SR1__WEIGHTS_OTHER_FORMS_H
#define SR1__WEIGHTS_OTHER_FORMS_H

#include "base/error.h"

/* SR1_E_UNSUPPORTED if path (a folder, or a file) holds a model in a known form that is
 * not supported; the text names the form and the remedy. */
sr1_status sr1__model_form_check(const char *path);

#endif
