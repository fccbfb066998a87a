package idp

import (
	"net/http"

	"golang.org/x/text/language"
)

// words of the pages, by language and name. Each language has the same names
// (tested). Names that begin with "t-" go to the script.
var words = map[string]map[string]string{
	"en": {
		"login-title":      "Sign in",
		"login-lead":       "Use the passkey that you made on this or another device.",
		"stepup-title":     "Confirm that it’s you",
		"stepup-lead":      "What you are about to do needs your passkey once more.",
		"lost-passkey":     "If you have lost it, ask the person who runs this server for a new link.",
		"use-passkey":      "Continue with a passkey",
		"recovery-summary": "I can’t use my passkey",
		"recovery-label":   "Recovery code",
		"recovery-hint":    "One of the ten codes that you saved when you joined. Each works once, and signs you in with fewer rights until you use a passkey.",
		"recovery-go":      "Sign in with this code",
		"enrol-title":      "Welcome to Chaperone",
		"enrol-lead":       "Choose a name and make a passkey. There is no password to remember.",
		"name-label":       "Your name",
		"name-hint":        "Shown to you and in this server’s records.",
		"enrol-go":         "Create a passkey",
		"copy":             "Copy all codes",
		"saved":            "I have saved these codes in a safe place.",
		"codes-go":         "Go to sign in",
		"refused-title":    "That didn’t work",
		"refused-lead":     "This sign-in can’t be continued: it took too long, was used before, or began in another browser.",
		"again":            "Start again",
		"noscript":         "This page needs JavaScript to use your passkey.",

		"t-waiting":      "Waiting for your passkey…",
		"t-checking":     "Checking…",
		"t-done":         "Signed in. One moment…",
		"t-copied":       "Copied.",
		"t-codes-title":  "Save your recovery codes",
		"t-codes-lead":   "They are shown this once. Each signs you in once if you lose your passkey.",
		"t-unsupported":  "This browser can’t use passkeys. Try another browser or device.",
		"t-cancelled":    "No passkey was used. Try again when you are ready.",
		"t-known":        "This device already has a passkey of yours.",
		"t-no-link":      "This link is incomplete. Open the whole link that you were given.",
		"t-bad-link":     "This link has been used, or is too old. Ask for a new one.",
		"t-bad-document": "A name has 1 to 64 characters, without spaces at its ends.",
		"t-bad-passkey":  "That passkey isn’t accepted here.",
		"t-bad-code":     "That code isn’t right, or was used before.",
		"t-disabled":     "This account may not sign in. Ask the person who runs this server.",
		"t-expired":      "This sign-in took too long or was used before. Start again.",
		"t-failed":       "Something went wrong on the server. Try again in a moment.",
		"t-offline":      "The server can’t be reached. Check your connection and try again.",
		"t-copy-refused": "Copying isn’t possible here. Write the codes down, or print this page.",
		"t-acknowledge":  "First confirm that you have saved the codes.",
	},
	"es": {
		"login-title":      "Iniciar sesión",
		"login-lead":       "Use la llave de acceso que creó en este u otro dispositivo.",
		"stepup-title":     "Confirme que es usted",
		"stepup-lead":      "Lo que va a hacer necesita su llave de acceso una vez más.",
		"lost-passkey":     "Si la ha perdido, pida un enlace nuevo a quien administra este servidor.",
		"use-passkey":      "Continuar con una llave de acceso",
		"recovery-summary": "No puedo usar mi llave de acceso",
		"recovery-label":   "Código de recuperación",
		"recovery-hint":    "Uno de los diez códigos que guardó al registrarse. Cada uno sirve una vez y da menos permisos hasta que use una llave de acceso.",
		"recovery-go":      "Entrar con este código",
		"enrol-title":      "Le damos la bienvenida a Chaperone",
		"enrol-lead":       "Elija un nombre y cree una llave de acceso. No hay contraseña que recordar.",
		"name-label":       "Su nombre",
		"name-hint":        "Lo verá usted y figurará en los registros de este servidor.",
		"enrol-go":         "Crear una llave de acceso",
		"copy":             "Copiar todos los códigos",
		"saved":            "He guardado estos códigos en un lugar seguro.",
		"codes-go":         "Ir a iniciar sesión",
		"refused-title":    "No ha funcionado",
		"refused-lead":     "Este inicio de sesión no puede continuar: tardó demasiado, ya se usó o empezó en otro navegador.",
		"again":            "Empezar de nuevo",
		"noscript":         "Esta página necesita JavaScript para usar su llave de acceso.",

		"t-waiting":      "Esperando su llave de acceso…",
		"t-checking":     "Comprobando…",
		"t-done":         "Sesión iniciada. Un momento…",
		"t-copied":       "Copiado.",
		"t-codes-title":  "Guarde sus códigos de recuperación",
		"t-codes-lead":   "Se muestran solo esta vez. Cada uno permite entrar una vez si pierde su llave de acceso.",
		"t-unsupported":  "Este navegador no puede usar llaves de acceso. Pruebe con otro navegador o dispositivo.",
		"t-cancelled":    "No se usó ninguna llave de acceso. Inténtelo de nuevo cuando quiera.",
		"t-known":        "Este dispositivo ya tiene una llave de acceso suya.",
		"t-no-link":      "Este enlace está incompleto. Abra el enlace entero que recibió.",
		"t-bad-link":     "Este enlace ya se usó o es demasiado antiguo. Pida uno nuevo.",
		"t-bad-document": "Un nombre tiene de 1 a 64 caracteres, sin espacios en los extremos.",
		"t-bad-passkey":  "Esa llave de acceso no se acepta aquí.",
		"t-bad-code":     "Ese código no es correcto o ya se usó.",
		"t-disabled":     "Esta cuenta no puede iniciar sesión. Consulte a quien administra este servidor.",
		"t-expired":      "Este inicio de sesión tardó demasiado o ya se usó. Empiece de nuevo.",
		"t-failed":       "Algo falló en el servidor. Inténtelo de nuevo en un momento.",
		"t-offline":      "No se puede llegar al servidor. Revise su conexión e inténtelo de nuevo.",
		"t-copy-refused": "Aquí no se puede copiar. Anote los códigos o imprima esta página.",
		"t-acknowledge":  "Confirme primero que ha guardado los códigos.",
	},
}

var matcher = language.NewMatcher([]language.Tag{language.English, language.Spanish})

// languageOf answers the language that a request prefers, of those there are.
func languageOf(r *http.Request) string {
	tags, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return "en"
	}
	_, index, _ := matcher.Match(tags...)
	return []string{"en", "es"}[index]
}
